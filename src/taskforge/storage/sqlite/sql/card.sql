-- A queue by its number. ?1 number
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at, servants, buries
from cards where number = ?1
