-- $1 ids
select w.job, w.fence, w.lane, w.attempt, w.max_attempts, w.crashes, w.keyed, w.due, w.until, w.skipped is not null as parked
from unnest($1::uuid[]) as x (job) cross join lateral (
    select * from taskforge.waiting where fence > x.job and fence <= taskforge.last_fence(x.job) for update
) w
