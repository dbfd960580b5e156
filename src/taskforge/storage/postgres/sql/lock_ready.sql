-- $1 ids
select r.job, r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, r.keyed, r.turn, r.until, r.skipped is not null as skipped
from unnest($1::uuid[]) as x (job) cross join lateral (
    select * from taskforge.ready where fence > x.job and fence <= taskforge.last_fence(x.job) for update
) r
