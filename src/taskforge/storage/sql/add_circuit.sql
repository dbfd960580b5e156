-- A circuit of a job type in a queue ($2 and $3), or of a dependency ($4), unless it is there.
-- $1 project · $2 queue · $3 job type · $4 dependency · $5 thresholds of a dependency, JSON
insert into taskforge.circuits (project, queue, job_type, dependency, settings) values ($1, $2, $3, $4, $5)
on conflict do nothing
