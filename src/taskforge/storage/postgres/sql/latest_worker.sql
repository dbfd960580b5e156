-- The newest incarnation of one worker, as workers.sql shows it. $1 project · $2 worker · $3 now
-- (tests)
select w.incarnation, w.id, w.project, w.name, w.given_name, w.worker_type, w.role, w.capabilities::text as capabilities, w.queues, w.types,
    w.max_concurrent_jobs, w.wished_slots, w.drain_mode, w.stopping, w.healthy, w.stuck_slots, w.blocking, w.version, w.host, w.pid,
    w.cpu_percent, w.memory_bytes, w.lease_until, w.heartbeat_at,
    w.registered_at, w.updated_at, (select count(*) from taskforge.running r where r.worker = w.incarnation) as active, c.now
from taskforge.workers w
cross join (select coalesce($3::timestamptz, statement_timestamp()) as now) c
where w.id = $2 and w.project = $1
order by w.registered_at desc, w.incarnation desc
limit 1
