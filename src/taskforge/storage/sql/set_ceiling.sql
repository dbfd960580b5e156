-- The ceiling of an organization, whether it had one or not. $1 organization · $2 projects · $3
-- queues · $4 pending_jobs · $5 workers · $6 enqueue_per_minute · $7 bytes_per_minute · $8
-- stored_bytes · $9 streams
insert into taskforge.ceilings (organization, projects, queues, pending_jobs, workers, enqueue_per_minute, bytes_per_minute, stored_bytes,
    streams)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (organization) do update set projects = excluded.projects, queues = excluded.queues,
    pending_jobs = excluded.pending_jobs, workers = excluded.workers, enqueue_per_minute = excluded.enqueue_per_minute,
    bytes_per_minute = excluded.bytes_per_minute, stored_bytes = excluded.stored_bytes, streams = excluded.streams
