-- Events of jobs that one process has counted, one for each queue. ?1 a list of {topic, project, queue
-- (its name), details}, as JSON · ?2 now
insert into outbox (project, topic, queue, details, at)
select i.value ->> 'project', i.value ->> 'topic', q.number, i.value ->> 'details', ?2
from json_each(?1) i cross join queues q
on q.project = i.value ->> 'project' and q.name = i.value ->> 'queue' and q.deleted_at is null
