-- A new life of a worker: of the one that was last started under this name, whose shown name and
-- wishes it keeps, or of a new one. A name that another worker of the project bears by now, because
-- it was renamed, is not taken from it.
-- $1 incarnation · $2 worker id if the name is new · $3 project · $4 name · $5 type · $6 role · $7
-- capabilities · $8 queues · $9 types ·
-- $10 max concurrent jobs · $11 version · $12 host · $13 pid · $14 lease seconds · $15 now (tests)
-- · $16 the name if it is another's ·
-- $17 machine · $18 when the process began · $19 slots that an operator wishes, or null: as before
-- Whoever calls this holds lock_name.sql, so that nobody else begins a life under this name
-- meanwhile.
with clock as (
    select coalesce($15::timestamptz, statement_timestamp()) as now
),
before as (
    select id, name, wished_slots, drain_mode from taskforge.workers where project = $3 and given_name = $4
    order by registered_at desc, incarnation desc limit 1
),
worker as (
    select coalesce(b.id, $2) as id, coalesce(b.name, $4) as name, coalesce($19::int, b.wished_slots) as wished_slots, coalesce(b.drain_mode, false) as drain_mode
    from (select) one left join before b on true
),
registered as (
    insert into taskforge.workers (incarnation, id, project, name, given_name, worker_type, role, capabilities, queues, types,
        max_concurrent_jobs, wished_slots, drain_mode, version, host, pid, machine, pid_started, lease_until, lease_seconds,
        registered_at, updated_at)
    select $1, w.id, $3,
        case when exists (
            select from taskforge.workers o where o.project = $3 and o.name = w.name and o.id <> w.id and o.lease_until > c.now
        ) then $16 else w.name end,
        $4, $5, $6, $7::jsonb, $8::text[], $9::text[], $10, w.wished_slots, w.drain_mode, $11, $12, $13, $17, $18,
        c.now + make_interval(secs => $14), $14, c.now, c.now
    from worker w cross join clock c
    returning id, project, registered_at
), event as (
    insert into taskforge.outbox (project, topic, worker, jobs, at)
    select project, 'worker.registered', id, '{}', registered_at from registered
)
select id from registered
