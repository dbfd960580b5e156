-- When the next schedule is due.
select due_at from taskforge.schedules where due_at is not null order by due_at limit 1
