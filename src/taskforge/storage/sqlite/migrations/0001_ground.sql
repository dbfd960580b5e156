-- The ground: facts written once, narrow places that say where a job is, history that is only appended.
-- The same tables and columns as on PostgreSQL. Times are microseconds since 1970 UTC, ids 16-byte blobs, JSON and lists text.
-- Text and blobs that may be long come last in their rows: what stands behind them is reached only through their overflow pages.

create table organizations (
    number integer primary key,
    id blob not null unique,
    name text not null unique,
    created_at integer not null
) strict;

create table projects (
    number integer primary key,
    id blob not null unique,
    organization integer not null references organizations,
    name text not null,
    created_at integer not null,
    version integer not null default 1,
    -- Rises with every change to the project's queues, assignments or workers, so that a process can keep them in memory and each claim and
    -- insert proves with one row read that what it remembers is still so.
    catalog_version integer not null default 1,
    circuits_stamp integer not null default 0, -- the catalog version at which its circuits last changed
    most_lanes integer, -- how many it may have; null: as many as any
    unique (organization, name)
) strict;

-- One row: up to where things are no longer kept.
create table horizons (
    one integer primary key default 1 check (one = 1),
    pruned_before integer, -- ids older than this may have been pruned
    pruned_event integer not null default 0, -- the last event that is no longer kept
    arrivals_until integer, -- jobs that arrived are counted up to here
    restores integer not null default 0 -- from backups
) strict;
insert into horizons default values;

-- When somebody last looked for lapsed claims, by the clock that leases go by and by the wall's. A longer silence than this rhythm means
-- that nobody could look; null: nobody promised to look again.
create table looks (
    one integer primary key default 1 check (one = 1),
    at integer not null,
    wall integer not null,
    rhythm integer
) strict;
insert into looks (at, wall) values (0, 0);

-- What leases go by: this machine's clock since it was started, and by how much that is behind the wall's as of the first time in this boot.
create table boot (
    one integer primary key default 1 check (one = 1),
    id text not null,
    behind integer not null
) strict;

create table queues (
    number integer primary key autoincrement,
    id blob not null unique,
    project integer not null references projects,
    name text not null,
    description text not null default '',
    priority integer not null default 0,
    settings text not null default '{}',
    is_active integer not null default 1,
    version integer not null default 1,
    created_at integer not null,
    updated_at integer not null,
    deleted_at integer,
    stamp integer not null -- the catalog version of its project at which it, or what belongs to it, last changed
) strict;
create unique index queues_name on queues (project, name) where deleted_at is null;
create index queues_stamp on queues (project, stamp);
create index queues_deleted on queues (number) where deleted_at is not null;
create index queues_dead_letters on queues (project, json_extract(settings, '$.dead_letter_queue_id'))
    where json_extract(settings, '$.dead_letter_queue_id') is not null and deleted_at is null;

-- What a worker can or cannot run, interned: claims merge the lanes that hold jobs and that a worker may take, and never look at the others.
-- A lane never changes, so nobody need hear of a new one: whoever meets its number looks it up.
create table lanes (
    number integer primary key autoincrement,
    project integer not null,
    queue integer not null references queues,
    job_type text not null,
    priority integer not null,
    requires text not null default '',
    unique (queue, job_type, priority, requires)
) strict;
create index lanes_project on lanes (project);

-- Limiter state, one row for each queue that has a rate limit.
create table gates (
    queue integer primary key references queues,
    tokens real,
    refreshed_at real,
    rate real, -- as learned, where the algorithm learns
    judged_at real,
    behind integer not null default 0 -- something waits for its turn, where the algorithm asks
) strict;

-- What came of executions of queues whose rate limit learns from it: finish appends, claims sum up and remove.
create table gate_deltas (
    number integer primary key,
    queue integer not null,
    good integer not null,
    bad integer not null
) strict;
create index gate_deltas_queue on gate_deltas (queue);

-- Jobs and what finished have rowids: without, a search compares whole rows, and reads every payload or result that it comes by
-- (a job's whole life beside 16 others of 2 MiB: 4.4 ms against 0.8).
create table jobs (
    id blob not null primary key,
    project integer not null,
    queue integer not null,
    job_type text not null,
    priority integer not null,
    max_attempts integer not null,
    deadline integer,
    expires_at integer,
    timeout_seconds real,
    tags text,
    requires text,
    unique_key text,
    idempotency_key text,
    fairness_key text,
    extras text, -- fields that no statement goes by, those that are set, as JSON
    origin_queue integer,
    edited_at integer, -- when an operator last changed these facts
    buried_reason text, -- why it became a dead letter, and the error it did so with
    buried_error text,
    payload text -- null: erased
) strict;
create index jobs_queue on jobs (queue, id);

-- The places. A job is in exactly one of ready, waiting, running, finished. A fence is the job's id with an epoch in its last 24 bits;
-- in ready and waiting it is the one the next claim will have. The job's id follows from the fence and takes no room.

-- Kept in the order claims take it: a claim finds the lanes of its project that hold jobs by skipping from one to the next, and reads,
-- copies and deletes one range of one tree. Keyed by fence, with the lane as the
-- index, it takes jobs by lists of fences instead: 63k against 81k claimed and finished jobs a second.
create table ready (
    project integer not null,
    lane integer not null,
    key integer not null default 0, -- what stands for its fairness key, where keys take turns; 0: nothing
    turn integer not null, -- microseconds at which it became ready: its place in the lane
    fence blob not null,
    job blob generated always as (cast(substr(fence, 1, 13) || x'000000' as blob)) virtual,
    attempt integer not null, -- attempts spent so far
    max_attempts integer not null,
    crashes integer not null,
    keyed integer not null, -- holds a unique key
    until integer, -- start by, or fail
    misfit_at integer, -- when its arguments first fitted no handler
    skipped text, -- ids, in hexadecimal, of workers that would not take it, and of incarnations whose handlers its arguments do not fit
    primary key (project, lane, key, turn, fence)
) strict, without rowid;
create unique index ready_fence on ready (fence);
create index ready_key on ready (project, lane, key) where key > 0;
create index ready_until on ready (until) where until is not null;
create index ready_skipped on ready (fence) where skipped is not null;

create table waiting (
    fence blob primary key,
    job blob generated always as (cast(substr(fence, 1, 13) || x'000000' as blob)) virtual,
    project integer not null,
    lane integer not null,
    attempt integer not null,
    max_attempts integer not null,
    crashes integer not null,
    keyed integer not null,
    due integer not null,
    key integer not null default 0,
    turn integer, -- of a job that keeps its place before others of its key
    until integer,
    misfit_at integer,
    skipped text -- only of jobs that wait for a worker whose handler their arguments fit
) strict, without rowid;
create index waiting_due on waiting (due, fence);
create index waiting_key on waiting (key) where turn is not null;
create index waiting_parked on waiting (project, lane, due) where skipped is not null;
create index waiting_until on waiting (until) where until is not null;

create table running (
    fence blob primary key,
    job blob generated always as (cast(substr(fence, 1, 13) || x'000000' as blob)) virtual,
    project integer not null,
    lane integer not null,
    worker blob not null, -- the incarnation
    attempt integer not null, -- this one included
    max_attempts integer not null,
    crashes integer not null,
    keyed integer not null,
    cancel_requested integer not null default 0,
    turn integer not null,
    claimed_at integer not null,
    timeout_at integer not null,
    timeout_seconds real not null,
    beat_by integer,
    beat_seconds real,
    deadline integer,
    gate integer, -- the queue, when it has a limit
    key integer not null default 0,
    started_at integer,
    heartbeat_at integer,
    progress real,
    misfit_at integer,
    message text,
    cancel_reason text,
    skipped text
) strict, without rowid;
create index running_worker on running (worker);
create index running_cancel on running (worker) where cancel_requested;
create index running_gate on running (gate) where gate is not null;

-- Holds the job's last execution too: one that ended at its first attempt has no other row in history.
create table finished (
    queue integer not null,
    job blob not null,
    project integer not null,
    status integer not null,
    epoch integer not null, -- of the last execution; 0 when there was none
    attempt integer not null,
    max_attempts integer not null,
    crashes integer not null,
    worker blob,
    claimed_at integer,
    started_at integer,
    finished_at integer not null,
    progress real,
    reason text,
    message text,
    result text,
    error text,
    primary key (queue, job)
) strict;
create index finished_unlucky on finished (queue, status, job) where status <> 3;

create table executions (
    job blob not null,
    epoch integer not null,
    project integer not null,
    attempt integer not null,
    status integer not null,
    worker blob,
    claimed_at integer not null,
    started_at integer,
    finished_at integer not null,
    reason text,
    output text,
    error text,
    primary key (job, epoch)
) strict, without rowid;

-- One row: the last number given to a log line.
create table log_numbers (
    one integer primary key default 1 check (one = 1),
    last integer not null
) strict;
insert into log_numbers (last) values (0);

create table logs (
    job blob not null,
    epoch integer not null,
    number integer not null,
    project integer not null,
    level integer not null,
    logged_at integer not null,
    message text not null,
    metadata text,
    primary key (job, epoch, number)
) strict, without rowid;

create table job_tags (
    project integer not null,
    tag text not null,
    job blob not null,
    primary key (project, tag, job)
) strict, without rowid;

-- scope 0: unique until the job is done; scope 1: idempotency, for a time.
create table keys (
    project integer not null,
    scope integer not null,
    key text not null,
    job blob not null,
    body blob,
    until integer,
    primary key (project, scope, key)
) strict, without rowid;
create index keys_job on keys (job);
create index keys_until on keys (until) where until is not null;

create table workers (
    incarnation blob primary key,
    id blob not null, -- survives restarts under the same given name
    project integer not null references projects,
    name text not null, -- as it is shown
    given_name text not null, -- as its process was started
    worker_type text not null,
    role text,
    capabilities text not null,
    queues text,
    types text,
    max_concurrent_jobs integer not null, -- as its process was started
    wished_slots integer, -- what an operator wants instead; it outlasts restarts, as a wish to drain does
    drain_mode integer not null default 0,
    stopping integer not null default 0, -- it ends by itself
    healthy integer not null default 1,
    stuck_slots integer not null default 0, -- held by handlers that did not end
    blocking blob, -- the fence of the job that holds its event loop
    version text not null,
    host text not null,
    pid integer,
    cpu_percent real,
    memory_bytes integer,
    lease_until integer not null, -- by the clock that leases go by
    lease_seconds real not null, -- as it was last asked for
    heartbeat_at integer,
    registered_at integer not null,
    updated_at integer not null,
    left_at integer,
    machine text not null default '', -- where its pid means something, and when that process began
    pid_started text not null default '',
    died_at integer, -- its process is known to have ended without leaving; whoever outlived it said so
    is_new integer not null default 0 -- what waits for a handler that its arguments fit was not all offered to it yet
) strict, without rowid;
create index workers_name on workers (project, name, registered_at);
create index workers_given_name on workers (project, given_name, registered_at);
create index workers_new on workers (incarnation) where is_new;
create index workers_machine on workers (project, machine) where left_at is null and machine <> '';
create index workers_id on workers (id, registered_at);

-- Whose life an incarnation was that is no longer kept: history names incarnations, and is kept for longer.
create table former_workers (
    incarnation blob primary key,
    id blob not null,
    project integer not null,
    name text not null,
    ended_at integer not null
) strict, without rowid;
create index former_workers_ended on former_workers (ended_at);

-- Finish appends one row for each batch and group; folding sums them up.
create table rollup_deltas (
    number integer primary key,
    project integer not null,
    queue integer not null,
    lane integer, -- null: whatever was not an execution
    worker blob, -- the incarnation that ran them; of a look at a worker, its identity
    minute integer not null,
    status integer not null, -- of executions; 0: what is no execution
    count integer not null,
    durations blob not null default x'', -- milliseconds, of each execution, as 4-byte floats
    waits blob not null default x'',
    gauges text, -- as JSON: what a look saw
    job_type text -- of jobs that arrived
) strict;
-- One row for a scope (whose executions) and a minute, an hour or a day; `domain/rollup.py` knows what is in a cell.
create table rollups (
    scope integer not null,
    step integer not null, -- 0 minute, 1 hour, 2 day
    start integer not null, -- minutes since 1970
    project integer not null,
    cell blob not null,
    primary key (scope, step, start)
) strict, without rowid;

-- How many finished jobs of each status a queue keeps, as a sum of small changes.
create table tally_deltas (
    number integer primary key,
    project integer not null,
    queue integer not null,
    status integer not null,
    count integer not null
) strict;
create table tallies (
    queue integer not null,
    status integer not null,
    project integer not null,
    count integer not null,
    primary key (queue, status)
) strict, without rowid;
create index tallies_project on tallies (project);

-- How the executions of each worker ended, summed up with the rollups, so that the cost of asking does not grow with history.
create table worker_tallies (
    worker blob not null, -- the identity
    status integer not null, -- of executions
    project integer not null,
    count integer not null,
    primary key (worker, status)
) strict, without rowid;

-- Numbers are never given twice, even after everything was pruned: readers resume behind the last one they saw.
create table outbox (
    number integer primary key autoincrement,
    project integer not null,
    topic text not null,
    queue integer,
    worker blob, -- the identity
    at integer not null,
    jobs blob not null default x'', -- their ids, one behind the other
    details text -- as JSON: of nodes, leaders and schedules
) strict;

insert into organizations (number, id, name, created_at)
values (1, x'01900000000070008000000000000000', 'default', cast(strftime('%s', 'now') as integer) * 1000000);
insert into projects (number, id, organization, name, created_at)
values (1, x'01900000000070008000000001000000', 1, 'default', cast(strftime('%s', 'now') as integer) * 1000000);

-- A job and where it stands, for readers.
create view jobs_now as
select j.*,
    case when r.fence is not null then 0 when w.fence is not null then 1 when x.fence is not null then 2 else f.status end as status,
    coalesce(r.lane, w.lane, x.lane) as lane,
    coalesce(r.fence, w.fence, x.fence) as fence,
    f.epoch,
    coalesce(r.attempt, w.attempt, x.attempt, f.attempt) as attempt,
    coalesce(r.max_attempts, w.max_attempts, x.max_attempts, f.max_attempts) as budget,
    coalesce(r.crashes, w.crashes, x.crashes, f.crashes) as crashes,
    coalesce(r.keyed, w.keyed, x.keyed, 0) as keyed,
    coalesce(r.turn, x.turn) as turn,
    w.due,
    coalesce(x.worker, f.worker) as worker,
    coalesce(x.claimed_at, f.claimed_at) as claimed_at,
    coalesce(x.started_at, f.started_at) as started_at,
    f.finished_at,
    coalesce(x.progress, f.progress) as progress,
    coalesce(x.cancel_requested, 0) as cancel_requested,
    x.cancel_reason,
    coalesce(r.misfit_at, w.misfit_at, x.misfit_at) as misfit_at,
    case when f.job is null then j.buried_reason else f.reason end as reason,
    coalesce(x.message, f.message) as message,
    f.result,
    case when f.job is null then j.buried_error else f.error end as error,
    x.heartbeat_at,
    -- What waits after a claim changed when that one ended; in the places themselves only the future is written.
    case when substr(coalesce(r.fence, w.fence), 14) > x'000001' then
        (select e.finished_at from executions e where e.job = j.id order by e.epoch desc limit 1) end as last_ended_at,
    coalesce(a.id, b.id) as worker_id,
    coalesce(a.name, b.name) as worker_name
from jobs j
left join ready r on r.fence > j.id and r.fence <= cast(substr(j.id, 1, 13) || x'ffffff' as blob)
left join waiting w on w.fence > j.id and w.fence <= cast(substr(j.id, 1, 13) || x'ffffff' as blob)
left join running x on x.fence > j.id and x.fence <= cast(substr(j.id, 1, 13) || x'ffffff' as blob)
left join finished f on f.queue = j.queue and f.job = j.id
left join workers a on a.incarnation = coalesce(x.worker, f.worker)
left join former_workers b on b.incarnation = coalesce(x.worker, f.worker);
