-- The scopes of a project's queues, by name. $1 project · $2 behind this name · $3 the zero id · $4 limit
select s.number, s.project, q.id, q.name, s.job_type, s.worker
from taskforge.queues q join taskforge.rollup_scopes s on s.project = q.project and s.queue = q.number
where q.project = $1 and q.name > $2 and q.deleted_at is null and s.job_type = '' and s.worker = $3
order by q.name limit $4
