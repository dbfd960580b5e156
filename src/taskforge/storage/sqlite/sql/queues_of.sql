-- Some live queues of these projects. ?1 projects · ?2 ids, one behind the other · ?3 positions of them
select number, id, project, name, description, priority, settings, is_active, version, created_at, updated_at, deleted_at
from queues where id in (select substr(?2, 16 * key + 1, 16) from json_each(?3))
  and project in (select value from json_each(?1)) and deleted_at is null
order by name, id
