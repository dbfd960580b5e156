-- The first names of a project's live queues, to tell the nearest to one that none has. $1 projects
select name from taskforge.queues where project = any ($1::int[]) and deleted_at is null order by name limit 1000
