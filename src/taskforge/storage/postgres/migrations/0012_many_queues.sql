-- Pages of queues, workers and assignments. Names in the order of their letters' numbers, whatever
-- the database's own order is: it is the same everywhere, and a beginning is a range of it.
create index queues_by_name on taskforge.queues (project, name collate "C") where deleted_at is null;
create index workers_by_name on taskforge.workers (project, name collate "C", incarnation);
create index assignments_by_queue on taskforge.assignments (project, queue, worker);
create index assignments_by_worker on taskforge.assignments (worker, queue);

-- Lanes that nobody uses any more are retired: doubted first, and removed when nobody has looked for
-- them and nothing has stood in them for a day since.
alter table taskforge.lanes
    add column kept_at timestamptz not null default now(), -- when it was made, or last looked for while it was doubted
    add column doubted_at timestamptz; -- it was empty then; null: nobody doubts it
create index lanes_doubted on taskforge.lanes (doubted_at) where doubted_at is not null;

-- Whoever looks for a lane to put a job there takes the doubt from it: also who enqueues from SQL.
do $migration$
declare
    was text := pg_get_functiondef((select p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.oid = (select relnamespace from pg_class where oid = 'taskforge.lanes'::regclass) and p.proname = 'enqueue'));
    known text := 'select l.number into lane_number from';
    kept text := 'update taskforge.lanes l set doubted_at = null, kept_at = moment
    where l.queue = target.number and l.job_type = enqueue.job_type and l.priority = enqueue.priority
        and l.requires = coalesce(enqueue.requires::text, '''') and l.doubted_at is not null;
    ';
begin
    if position(known in was) = 0 then
        raise exception 'the function enqueue is not as this migration knows it';
    end if;
    execute replace(was, known, kept || known);
end
$migration$;
