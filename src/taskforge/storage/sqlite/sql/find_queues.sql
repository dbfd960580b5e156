-- Live queues of these projects by their name, and by their id. ?1 projects · ?2 name · ?3 id
select q.number, q.id, q.project, q.name, q.description, q.priority, q.settings, q.is_active, q.version, q.created_at, q.updated_at, q.deleted_at
from json_each(?1) p cross join queues q on q.project = p.value and q.name = ?2 and q.deleted_at is null
union all
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at
from queues where id = ?3 and project in (select value from json_each(?1)) and deleted_at is null and name <> ?2
