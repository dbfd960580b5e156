-- Where a job that is to be explained stands, and who would not take it: turn, fence and time to
-- start by only if it is ready. $1 job · $2 its last fence
select p.*, case when p.misfit_at is not null then (
        select e.reason from taskforge.executions e where e.job = $1 order by e.epoch desc limit 1) end as misfit
from (
    select turn, fence, until, skipped, misfit_at, key from taskforge.ready where fence between $1 and $2
    union all
    select null, null, null, skipped, misfit_at, key from taskforge.waiting where fence between $1 and $2
) p
