-- An event of a queue or a worker. $1 project · $2 topic · $3 queue · $4 worker · $5 now (tests)
insert into taskforge.outbox (project, topic, queue, worker, jobs, at)
values ($1, $2, $3, $4, '{}', coalesce($5::timestamptz, statement_timestamp()))
