-- The numbers of schedules that are due, where they are many: of each project the one that is due
-- the longest, then of each the second one, and so on. $1 now · $2 limit
select number from (
    select number, due_at, row_number() over (partition by project order by due_at) as place
    from taskforge.schedules where due_at <= $1
) as ranked order by place, due_at limit $2
