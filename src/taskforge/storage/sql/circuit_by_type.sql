-- The circuit of a job type in a queue. $1 queue · $2 job type
-- include: circuits
where c.queue = $1 and c.job_type = $2
