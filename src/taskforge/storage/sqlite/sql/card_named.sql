-- A live queue of a project by its name, or by its id. ?1 project · ?2 name · ?3 id
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at, servants, buries
from cards where number = coalesce(
    (select number from queues where project = ?1 and name = ?2 and deleted_at is null),
    (select number from queues where id = ?3 and project = ?1 and deleted_at is null))
