-- The scope of a project, or of one of its workers. $1 project · $2 worker, or the zero id
select number, project, null, '', job_type, worker from taskforge.rollup_scopes
where project = $1 and queue = 0 and job_type = '' and worker = $2
