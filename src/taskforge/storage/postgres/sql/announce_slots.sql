-- An event of a project's schedules. $1 project · $2 topic · $3 jobs · $4 details · $5 now (tests)
insert into taskforge.outbox (project, topic, jobs, details, at)
values ($1, $2, $3::uuid[], $4, coalesce($5::timestamptz, statement_timestamp()))
