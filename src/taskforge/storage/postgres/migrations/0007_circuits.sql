-- Circuits: one for each job type of a queue with a breaker that ran, or that was opened by hand, and one for each dependency.
create table taskforge.circuits (
    number int generated always as identity primary key,
    project int not null references taskforge.projects,
    queue int references taskforge.queues, -- with job_type: of a type in a queue
    job_type text,
    dependency text, -- or of what job types depend on
    settings json, -- the thresholds of a dependency; those of a queue are among its settings
    mode text not null default 'closed',
    room int, -- how many may go through; null: all
    state json not null default '{}', -- a BreakerState
    turn int not null default 0, -- that of the state
    due_at timestamptz -- when time alone changes it
) with (fillfactor = 50);
create unique index circuits_type on taskforge.circuits (queue, job_type) where queue is not null;
create unique index circuits_dependency on taskforge.circuits (project, dependency) where dependency is not null;
create index circuits_project on taskforge.circuits (project, number);
-- What claims must know of: the closed ones, however many, are not read.
create index circuits_held on taskforge.circuits (project) where room is not null;
create index circuits_due on taskforge.circuits (due_at) where due_at is not null;

-- Which job types depend on what, as the worker says that registered last.
create table taskforge.dependents (
    project int not null references taskforge.projects,
    job_type text not null,
    circuit int not null references taskforge.circuits on delete cascade,
    primary key (project, job_type, circuit)
);
create index dependents_circuit on taskforge.dependents (circuit);

-- What came of executions under a circuit: endings append, whoever judges the circuit removes.
create table taskforge.circuit_deltas (
    number bigint generated always as identity primary key,
    lane int not null,
    asked_at float8 not null,
    ended_at float8 not null,
    good int not null,
    bad int not null,
    neither int not null
);
create index circuit_deltas_lane on taskforge.circuit_deltas (lane);
