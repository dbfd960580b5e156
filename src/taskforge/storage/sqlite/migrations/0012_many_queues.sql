-- Pages of queues, workers and assignments.
create index workers_by_name on workers (project, name, incarnation);
create index assignments_by_queue on assignments (project, queue, worker);
create index assignments_by_worker on assignments (worker, queue);

-- Lanes that nobody uses any more are retired: doubted first, and removed when nobody has looked for
-- them and nothing has stood in them for a day since.
alter table lanes add column kept_at integer not null default 0; -- when it was made, or last looked for while it was doubted
alter table lanes add column doubted_at integer; -- it was empty then; null: nobody doubts it
create index lanes_doubted on lanes (doubted_at) where doubted_at is not null;
