-- The live queues of these projects. ?1 projects
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at
from queues where project in (select value from json_each(?1)) and deleted_at is null
order by name, id
