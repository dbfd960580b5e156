-- Events of jobs that one process has counted, one for each queue. $1 a list of {topic, project, queue
-- (its name), details}, as JSON · $2 now (tests)
insert into taskforge.outbox (project, topic, queue, details, at)
select x.project, x.topic, q.number, x.details, coalesce($2::timestamptz, statement_timestamp())
from json_to_recordset($1::json) as x (topic text, project int, queue text, details text)
join taskforge.queues q on q.project = x.project and q.name = x.queue and q.deleted_at is null
