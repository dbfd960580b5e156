-- The scope of a queue, or of one worker in it. $1 project · $2 queue's id · $3 worker, or the zero id
select s.number, s.project, q.id, q.name, s.job_type, s.worker
from taskforge.queues q join taskforge.rollup_scopes s on s.project = q.project and s.queue = q.number
where q.project = $1 and q.id = $2 and s.job_type = '' and s.worker = $3
