-- The schedule of a project that is due for longest. $1 project
select name, due_at from taskforge.schedules
where project = $1 and due_at is not null and not is_paused order by due_at limit 1
