-- The schedules of a project, in the order in which they were made. ?1 project · ?2 behind this
-- number · ?3 limit
select number, id, project, name, description, timing, job, is_paused, declared_by, next_at,
    due_at, last_slot, last_job, version, created_at, updated_at
from schedules where project = ?1 and number > ?2 order by number limit ?3
