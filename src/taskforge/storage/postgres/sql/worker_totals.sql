-- How the executions of each worker ended, what is not folded yet included. $1 projects
select worker, coalesce(sum(count) filter (where status = 3), 0)::bigint as completed,
    coalesce(sum(count) filter (where status in (4, 6, 7)), 0)::bigint as failed
from (
    select worker, status, count from taskforge.worker_tallies where project = any ($1::int[])
    union all
    select w.id, d.status, d.count from taskforge.rollup_deltas d join taskforge.workers w on w.incarnation = d.worker
    where d.project = any ($1::int[])
) t
group by worker order by worker
