-- The highest epoch that finished jobs have reached, or may have since the backup that the store was
-- restored from. $1 jobs · $2 the epochs in their finished rows · $3 by how much a restore raises
-- epochs
select g.job,
    greatest(g.epoch, (select max(e.epoch) from taskforge.executions e where e.job = g.job),
        h.restores * $3::int + (h.restores > 0)::int) as epoch
from unnest($1::uuid[], $2::int[]) as g (job, epoch), taskforge.horizons h
