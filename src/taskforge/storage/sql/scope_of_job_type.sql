-- The scope of a job type. $1 project · $2 job type · $3 the zero id
select number, project, null, '', job_type, worker from taskforge.rollup_scopes
where project = $1 and queue = 0 and job_type = $2 and worker = $3
