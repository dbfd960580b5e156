-- A schedule. $1 id
select number, id, project, name, description, timing, job, is_paused, declared_by, next_at,
    due_at, last_slot, last_job, version, created_at, updated_at
from taskforge.schedules where id = $1
