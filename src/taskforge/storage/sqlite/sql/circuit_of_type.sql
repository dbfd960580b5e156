-- The circuit of a job type in a queue. ?1 queue · ?2 job type
select number, queue, job_type, dependency, settings, state from circuits where queue = ?1 and job_type = ?2
