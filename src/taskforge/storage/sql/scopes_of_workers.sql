-- The scopes of a project's workers, the newest first. $1 project · $2 the zero id · $3 limit
select number, project, null, '', job_type, worker from taskforge.rollup_scopes
where project = $1 and queue = 0 and job_type = '' and worker <> $2
order by worker desc limit $3
