-- Circuits with what else is shown of them.
select c.number, c.project, q.id as queue_id, q.name as queue, c.job_type, c.dependency, c.settings, q.settings as queue_settings, c.state,
    c.due_at
from taskforge.circuits c left join taskforge.queues q on q.number = c.queue
