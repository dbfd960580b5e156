-- $1 incarnation · $2 worker id if the name is new · $3 project · $4 name · $5 type · $6 role · $7 capabilities · $8 queues · $9 types ·
-- $10 max concurrent jobs · $11 version · $12 host · $13 pid · $14 lease seconds · $15 now (tests)
with registered as (
    insert into taskforge.workers (incarnation, id, project, name, worker_type, role, capabilities, queues, types, max_concurrent_jobs,
        version, host, pid, lease_until, registered_at, updated_at)
    select $1, coalesce((
            select id from taskforge.workers where project = $3 and name = $4 order by registered_at desc, incarnation desc limit 1), $2),
        $3, $4, $5, $6, $7::jsonb, $8::text[], $9::text[], $10, $11, $12, $13, c.now + make_interval(secs => $14), c.now, c.now
    from (select coalesce($15::timestamptz, statement_timestamp()) as now) c
    returning id, project, registered_at
), event as (
    insert into taskforge.outbox (project, topic, worker, jobs, at)
    select project, 'worker.registered', id, '{}', registered_at from registered
)
select id from registered
