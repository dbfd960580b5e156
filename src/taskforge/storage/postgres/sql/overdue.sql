-- Waiting and ready jobs whose start-by time or deadline has passed, and whether it was the
-- deadline. $1 limit · $2 now (tests)
select x.job, x.fence, x.project, coalesce(j.deadline <= c.now, false) as deadline
from (select coalesce($2::timestamptz, statement_timestamp()) as now) c
cross join lateral (
    (select job, fence, project from taskforge.ready where until <= c.now order by until limit $1)
    union all
    (select job, fence, project from taskforge.waiting where until <= c.now order by until limit $1)
) x
left join lateral (select deadline from taskforge.jobs where id = x.job limit 1) j on true
limit $1
