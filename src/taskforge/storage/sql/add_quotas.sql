-- The quotas of a project that was just added. $1 id of the project · $2 enqueue_per_minute · $3
-- pending_jobs · $4 workers · $5 payload_bytes_per_minute · $6 schedules
insert into taskforge.quotas (project, enqueue_per_minute, pending_jobs, workers,
    payload_bytes_per_minute, schedules)
select p.number, $2, $3, $4, $5, $6 from taskforge.projects p where p.id = $1
