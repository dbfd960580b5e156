-- The ceiling of an organization, whether it had one or not. $1 organization · $2 projects · $3
-- queues · $4 pending_jobs · $5 workers
insert into taskforge.ceilings (organization, projects, queues, pending_jobs, workers)
values ($1, $2, $3, $4, $5)
on conflict (organization) do update set projects = excluded.projects, queues = excluded.queues,
    pending_jobs = excluded.pending_jobs, workers = excluded.workers
