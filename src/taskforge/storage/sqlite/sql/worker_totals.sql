-- How the executions of each worker ended, what is not folded yet included. ?1 projects
select worker, sum(case when status = 3 then count else 0 end), sum(case when status in (4, 6, 7) then count else 0 end)
from (
    select worker, status, count from worker_tallies where project in (select value from json_each(?1))
    union all
    select w.id, d.status, d.count from rollup_deltas d join workers w on w.incarnation = d.worker
    where d.project in (select value from json_each(?1))
)
group by worker order by worker
