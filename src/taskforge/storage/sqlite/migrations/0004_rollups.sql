-- Whose executions a cell of rollups counts. 0, '' and the zero id stand for all of them.
create table rollup_scopes (
    number integer primary key autoincrement,
    project integer not null,
    queue integer not null,
    job_type text not null,
    worker blob not null, -- the identity
    unique (project, queue, job_type, worker)
) strict;

-- Hours and days that have to be summed up, once they are over.
create table rollups_due (
    scope integer not null,
    step integer not null,
    start integer not null,
    project integer not null,
    primary key (scope, step, start)
) strict, without rowid;
create index rollups_due_start on rollups_due (step, start);
