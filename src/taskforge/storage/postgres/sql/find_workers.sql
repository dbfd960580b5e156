-- Workers of these projects by their name, id or incarnation, as workers.sql shows them. $1 projects
-- · $2 name · $3 id or incarnation · $4 now (tests)
select w.incarnation, w.id, w.project, w.name, w.given_name, w.worker_type, w.role, w.capabilities::text as capabilities, w.queues, w.types,
    w.max_concurrent_jobs, w.wished_slots, w.drain_mode, w.stopping, w.healthy, w.stuck_slots, w.blocking, w.version, w.host, w.pid,
    w.cpu_percent, w.memory_bytes, w.lease_until, w.heartbeat_at,
    w.registered_at, w.updated_at, (select count(*) from taskforge.running r where r.worker = w.incarnation) as active, c.now
from (
    select l.incarnation from unnest($1::int[]) as p (number)
    cross join lateral (select incarnation from taskforge.workers where project = p.number and name = $2 offset 0) l
    union
    select incarnation from taskforge.workers where id = $3 and project = any ($1::int[])
    union
    select incarnation from taskforge.workers where incarnation = $3 and project = any ($1::int[])
) m
cross join (select coalesce($4::timestamptz, statement_timestamp()) as now) c
cross join lateral (select * from taskforge.workers where workers.incarnation = m.incarnation limit 1) w
where (w.lease_until > c.now or w.incarnation = (
        select n.incarnation from taskforge.workers n
        where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
order by w.name, w.registered_at
