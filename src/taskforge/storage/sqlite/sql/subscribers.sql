-- Active webhooks of these projects. ?1 projects, a list
select w.number, w.id, w.name, w.project, p.name, w.kinds, w.queues, w.since, w.waiting
from json_each(?1) i cross join webhooks w on w.project = i.value
join projects p on p.number = w.project
where w.is_active
