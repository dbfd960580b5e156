-- Of these schedules those that are due. ?1 numbers · ?2 now
select number, id, project, name, description, timing, job, is_paused, declared_by, next_at,
    due_at, last_slot, last_job, version, created_at, updated_at
from schedules where number in (select value from json_each(?1)) and due_at <= ?2 order by due_at
