-- Failures that are alike: which group each finished job and each dead letter is in, and the groups.
alter table finished add column failure blob;
create index finished_failure on finished (project, failure, job) where failure is not null;
alter table jobs add column buried_failure blob;
create index jobs_buried on jobs (project, buried_failure, id) where buried_failure is not null;

-- Attempts that failed alike in one batch, with one of them: endings append, upkeep adds them to the groups.
create table failure_deltas (
    number integer primary key autoincrement,
    project integer not null,
    queue integer not null,
    job_type text not null,
    failure blob not null,
    count integer not null,
    job blob not null,
    epoch integer not null,
    error_type text not null,
    message text not null, -- as far as groups go by it
    at integer not null
) strict;

create table failure_groups (
    number integer primary key autoincrement,
    project integer not null,
    failure blob not null,
    job_type text not null,
    error_type text not null,
    message text not null, -- without what differs from one job to the next
    first_seen integer not null,
    last_seen integer not null,
    count integer not null,
    tally text not null, -- a Tally, as JSON
    job blob not null, -- the last one that failed so
    epoch integer not null,
    unique (project, failure)
) strict;
create index failure_groups_time on failure_groups (project, last_seen, number);
create index failure_groups_count on failure_groups (project, count, number);
create index failure_groups_first on failure_groups (project, first_seen);
create index failure_groups_old on failure_groups (last_seen);

-- Whoever adds deltas to groups raises it, so that nobody adds the same ones twice.
create table failure_folds (version integer not null) strict;
insert into failure_folds values (0);
