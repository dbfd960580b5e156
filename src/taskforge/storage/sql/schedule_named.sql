-- The schedule of a project that has this name. $1 project · $2 name
select number, id, project, name, description, timing, job, is_paused, declared_by, next_at,
    due_at, last_slot, last_job, version, created_at, updated_at
from taskforge.schedules where project = $1 and name = $2
