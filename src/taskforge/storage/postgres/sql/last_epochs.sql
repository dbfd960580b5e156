-- The highest epoch that finished jobs have reached. $1 jobs · $2 the epochs in their finished rows
select g.job, greatest(g.epoch, (select max(e.epoch) from taskforge.executions e where e.job = g.job)) as epoch
from unnest($1::uuid[], $2::int[]) as g (job, epoch)
