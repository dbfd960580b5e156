-- The schedules of a project, in the order in which they were made. By a range of both columns:
-- for a project that is merely named PostgreSQL may walk the primary key, past 50,000 of another's.
-- $1 project · $2 behind this number · $3 limit
select number, id, project, name, description, timing, job, is_paused, declared_by, next_at,
    due_at, last_slot, last_job, version, created_at, updated_at
from taskforge.schedules
where (project, number) > ($1, $2) and project <= $1 order by project, number limit $3
