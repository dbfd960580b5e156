-- Lanes by their numbers, and whether upkeep doubts that they are used. $1 numbers
select l.* from unnest($1::int[]) as n (number)
cross join lateral (
    select number, project, queue, job_type, priority, requires, doubted_at is not null as is_doubted
    from taskforge.lanes where lanes.number = n.number limit 1
) l
