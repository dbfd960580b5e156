-- Jobs that were enqueued in a minute, counted from their ids. $1 the first id of it · $2 the first id behind it · $3 the minute
insert into taskforge.rollup_deltas (project, queue, minute, status, count, job_type)
select project, queue, $3, 0, count(*), job_type from taskforge.jobs where id >= $1 and id < $2 group by project, queue, job_type
