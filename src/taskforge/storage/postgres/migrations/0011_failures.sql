-- Failures that are alike: which group each finished job and each dead letter is in, and the groups.
alter table taskforge.finished add column failure uuid;
create index finished_failure on taskforge.finished (project, failure, job) where failure is not null;
alter table taskforge.jobs add column buried_failure uuid;
create index jobs_buried on taskforge.jobs (project, buried_failure, id) where buried_failure is not null;

-- The id of a group, as `group_of` in domain/failure_kind.py makes it. $3 is what the errors of a group have in common.
create function taskforge.failure_of(project int, lane int, kind bytea) returns uuid language sql stable as $made$
    select encode(substr(sha256(convert_to(failure_of.project || ' ' || l.job_type || ' ', 'UTF8') || failure_of.kind), 1, 16), 'hex')::uuid
    from taskforge.lanes l where l.number = failure_of.lane
$made$;

-- Attempts that failed alike in one batch, with one of them: endings append, upkeep adds them to the groups.
create table taskforge.failure_deltas (
    number bigint generated always as identity primary key,
    project int not null,
    queue int not null,
    job_type text not null,
    failure uuid not null,
    count bigint not null,
    job uuid not null,
    epoch int not null,
    error_type text not null,
    message text not null, -- as far as groups go by it
    at timestamptz not null
);

create table taskforge.failure_groups (
    number bigint generated always as identity primary key,
    project int not null,
    failure uuid not null,
    job_type text not null,
    error_type text not null,
    message text not null, -- without what differs from one job to the next
    first_seen timestamptz not null,
    last_seen timestamptz not null,
    count bigint not null,
    tally text not null, -- a Tally, as JSON
    job uuid not null, -- the last one that failed so
    epoch int not null,
    unique (project, failure)
) with (fillfactor = 70);
create index failure_groups_time on taskforge.failure_groups (project, last_seen, number);
create index failure_groups_count on taskforge.failure_groups (project, count, number);
create index failure_groups_first on taskforge.failure_groups (project, first_seen);
create index failure_groups_old on taskforge.failure_groups (last_seen);

-- Whoever adds deltas to groups raises it, so that nobody adds the same ones twice.
create table taskforge.failure_folds (version bigint not null);
insert into taskforge.failure_folds values (0);
