-- What a job type depends on is said anew. $1 project · $2 job type
delete from taskforge.dependents where project = $1 and job_type = $2
