-- $1 ids · $2 their queues
select f.job, f.queue, f.status, f.epoch, f.attempt, f.max_attempts, f.crashes
from unnest($1::uuid[], $2::int[]) as x (job, queue) cross join lateral (
    select * from taskforge.finished where finished.queue = x.queue and finished.job = x.job for update
) f
