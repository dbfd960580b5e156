-- The queues of a project that changed behind this version of its catalog. ?1 project · ?2 version ·
-- ?3 most
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at, servants, buries
from cards where project = ?1 and stamp > ?2 order by stamp limit ?3
