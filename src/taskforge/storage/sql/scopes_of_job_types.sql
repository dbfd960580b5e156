-- The scopes of a project's job types, by name. $1 project · $2 behind this name · $3 the zero id · $4 limit
select number, project, null, '', job_type, worker from taskforge.rollup_scopes
where project = $1 and queue = 0 and job_type > $2 and worker = $3
order by job_type limit $4
