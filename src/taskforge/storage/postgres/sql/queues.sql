-- The live queues of these projects. $1 projects
select number, id, project, name, description, priority, settings::text as settings, is_active, version, created_at, updated_at, deleted_at
from taskforge.queues where project = any ($1::int[]) and deleted_at is null
order by name, id
