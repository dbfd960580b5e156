-- Circuits: one for each job type of a queue with a breaker that ran, or that was opened by hand, and one for each dependency.
create table circuits (
    number integer primary key autoincrement,
    project integer not null references projects,
    queue integer references queues, -- with job_type: of a type in a queue
    job_type text,
    dependency text, -- or of what job types depend on
    settings text, -- the thresholds of a dependency; those of a queue are among its settings
    mode text not null default 'closed',
    room integer, -- how many may go through; null: all
    state text not null default '{}', -- a BreakerState
    turn integer not null default 0, -- that of the state
    due_at integer -- when time alone changes it
) strict;
create unique index circuits_type on circuits (queue, job_type) where queue is not null;
create unique index circuits_dependency on circuits (project, dependency) where dependency is not null;
create index circuits_project on circuits (project, number);
-- What claims must know of: the closed ones, however many, are not read.
create index circuits_held on circuits (project) where room is not null;
create index circuits_due on circuits (due_at) where due_at is not null;

-- Which job types depend on what, as the worker says that registered last.
create table dependents (
    project integer not null references projects,
    job_type text not null,
    circuit integer not null references circuits on delete cascade,
    primary key (project, job_type, circuit)
) strict, without rowid;
create index dependents_circuit on dependents (circuit);

-- One writer judges circuits as executions end: there is no table of what came of them, nor a mark on those that run.
