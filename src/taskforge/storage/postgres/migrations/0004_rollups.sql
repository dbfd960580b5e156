-- Whose executions a cell of rollups counts. 0, '' and the zero id stand for all of them.
create table taskforge.rollup_scopes (
    number int generated always as identity primary key,
    project int not null,
    queue int not null,
    job_type text not null,
    worker uuid not null, -- the identity
    unique (project, queue, job_type, worker)
);

-- Hours and days that have to be summed up, once they are over.
create table taskforge.rollups_due (
    scope int not null,
    step smallint not null,
    start int not null,
    project int not null,
    primary key (scope, step, start)
);
create index rollups_due_start on taskforge.rollups_due (step, start);
