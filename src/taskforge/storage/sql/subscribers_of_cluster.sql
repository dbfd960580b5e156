-- Active webhooks that may be told of nodes and of who leads.
select w.number, w.id, w.name, w.project, p.name, w.kinds, w.queues, w.since, w.waiting
from taskforge.webhooks w join taskforge.projects p on p.number = w.project
where w.is_active and w.sees_cluster order by w.number
