-- The workers of a stretch of a project's, in the order of names, as workers.sql shows them, that fit
-- a pattern; how many rows were walked and where that ended, also where none fits. Former lives are
-- walked too. $1 project · $2 behind this name · $3 and this incarnation of it · $4 from this name on
-- · $5 before this name · $6 how many to walk · $7 pattern, as of `like` · $8 limit · $9 now (tests)
with walked as materialized (
    select w.incarnation, w.id, w.project, w.name, w.lease_until from taskforge.workers w
    where w.project = $1 and (w.name collate "C", w.incarnation) > ($2, $3::uuid) and w.name collate "C" >= $4 and w.name collate "C" < $5
    order by w.name collate "C", w.incarnation limit $6
), fitting as (
    select w.incarnation from walked w
    cross join (select coalesce($9::timestamptz, statement_timestamp()) as now) c
    where w.name like $7 and (w.lease_until > c.now or w.incarnation = (
            select n.incarnation from taskforge.workers n
            where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
    order by w.name collate "C", w.incarnation limit $8
)
select x.walked, x.stopped, x.stopped_at, q.*
from (
    select count(*)::int as walked, (array_agg(name order by name collate "C" desc, incarnation desc))[1] as stopped,
        (array_agg(incarnation order by name collate "C" desc, incarnation desc))[1] as stopped_at from walked
) x
left join (
    select one.* from fitting f
    cross join (select coalesce($9::timestamptz, statement_timestamp()) as now) c
    cross join lateral (
        select w.incarnation, w.id, w.project, w.name, w.given_name, w.worker_type, w.role, w.capabilities::text as capabilities, w.queues, w.types,
            w.max_concurrent_jobs, w.wished_slots, w.drain_mode, w.stopping, w.healthy, w.stuck_slots, w.blocking, w.version, w.host, w.pid,
            w.cpu_percent, w.memory_bytes, w.lease_until, w.heartbeat_at,
            w.registered_at, w.updated_at, (select count(*) from taskforge.running r where r.worker = w.incarnation) as active, c.now
        from taskforge.workers w where w.incarnation = f.incarnation limit 1
    ) one
) q on true
order by q.name collate "C", q.incarnation
