-- Active webhooks of these projects, in no order: to put them in one, a plan may walk the webhooks
-- of everybody. $1 projects
select w.number, w.id, w.name, w.project, p.name, w.kinds, w.queues, w.since, w.waiting
from taskforge.webhooks w join taskforge.projects p on p.number = w.project
where w.is_active and w.project = any ($1::int[])
