-- What handlers of a job type have counted. $1 project · $2 job type · $3 minute · $4 values by name, as JSON
insert into taskforge.rollup_deltas (project, queue, job_type, minute, status, count, gauges) values ($1, 0, $2, $3, 0, 0, $4)
