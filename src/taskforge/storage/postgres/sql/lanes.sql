-- Lanes by their numbers. $1 numbers
select l.* from unnest($1::int[]) as n (number)
cross join lateral (
    select number, project, queue, job_type, priority, requires from taskforge.lanes where lanes.number = n.number limit 1
) l
