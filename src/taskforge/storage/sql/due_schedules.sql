-- The schedules that are due, the longest first. $1 now · $2 limit
select number, id, project, name, description, timing, job, is_paused, declared_by, next_at,
    due_at, last_slot, last_job, version, created_at, updated_at
from taskforge.schedules where due_at <= $1 order by due_at, project limit $2
