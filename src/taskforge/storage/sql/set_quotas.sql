-- The quotas of a project, whether it had some or not. $1 project · $2 enqueue_per_minute · $3
-- pending_jobs · $4 workers · $5 payload_bytes_per_minute · $6 schedules
insert into taskforge.quotas (project, enqueue_per_minute, pending_jobs, workers,
    payload_bytes_per_minute, schedules)
values ($1, $2, $3, $4, $5, $6)
on conflict (project) do update set enqueue_per_minute = excluded.enqueue_per_minute,
    pending_jobs = excluded.pending_jobs, workers = excluded.workers,
    payload_bytes_per_minute = excluded.payload_bytes_per_minute,
    schedules = excluded.schedules
