-- The newest incarnation of each worker, and older ones whose lease is alive. $1 projects · $2 now
-- (tests)
select w.incarnation, w.id, w.project, w.name, w.given_name, w.worker_type, w.role, w.capabilities::text as capabilities, w.queues, w.types,
    w.max_concurrent_jobs, w.wished_slots, w.drain_mode, w.stopping, w.healthy, w.stuck_slots, w.blocking, w.version, w.host, w.pid,
    w.cpu_percent, w.memory_bytes, w.lease_until, w.heartbeat_at,
    w.registered_at, w.updated_at, (select count(*) from taskforge.running r where r.worker = w.incarnation) as active, c.now
from taskforge.workers w
cross join (select coalesce($2::timestamptz, statement_timestamp()) as now) c
where w.project = any ($1::int[])
  and (w.lease_until > c.now or w.incarnation = (
        select n.incarnation from taskforge.workers n
        where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
order by w.name, w.registered_at
