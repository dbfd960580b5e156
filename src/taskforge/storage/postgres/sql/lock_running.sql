-- $1 ids
select r.job, r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, r.cancel_requested
from unnest($1::uuid[]) as x (job) cross join lateral (
    select * from taskforge.running where fence > x.job and fence <= taskforge.last_fence(x.job) for update
) r
