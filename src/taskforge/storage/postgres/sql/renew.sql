-- Renew the lease of one incarnation, and with it its hold on every job it runs. Nothing comes back
-- when the lease is already over, or when neither this worker nor anybody else was heard of for
-- longer than was promised: bridge.sql goes first then, for the others' sake too.
-- It need not be on disk before the next one is: a disk that stands still ends no lease. Only a
-- change of health is, for it raises the catalog's version, which must not be given twice.
-- A worker that stops is shown as draining; its next life is not. It claims nothing more, so nobody
-- need read the catalog anew.
-- $1 incarnation · $2 lease seconds · $3 cpu · $4 memory · $5 healthy · $6 now (tests) · $7
-- stopping
-- $8 stuck slots · $9 the fence that holds its event loop · $10 whether silence is no matter
with clock as materialized (
    select coalesce($6::timestamptz, statement_timestamp()) as now
),
before as materialized (
    select w.healthy, not $10 and coalesce(abs(date_part('epoch', c.now - greatest(l.at,
            case when w.heartbeat_at is not null then w.lease_until - make_interval(secs => w.lease_seconds) end))) > l.rhythm, false) as silent
    from taskforge.workers w cross join taskforge.looks l cross join clock c where w.incarnation = $1
),
renewed as (
    update taskforge.workers w set lease_until = c.now + make_interval(secs => $2), lease_seconds = $2, heartbeat_at = c.now,
        updated_at = c.now, cpu_percent = $3, memory_bytes = $4, healthy = $5, stopping = $7, stuck_slots = $8, blocking = $9
    from (
        select now, set_config('synchronous_commit', (select case when healthy = $5 then 'off' else 'on' end from before), true)
        from clock
    ) c
    where w.incarnation = $1 and w.lease_until > c.now and not (select silent from before)
    returning w.drain_mode or w.stopping as drain, coalesce(w.wished_slots, w.max_concurrent_jobs) as slots, w.project
),
turned as (
    update taskforge.projects set catalog_version = catalog_version + 1
    where number = (select project from renewed) and (select healthy from before) <> $5
)
select drain, slots, coalesce(c.fences, '{}') as cancelled, coalesce(c.reasons, '{}') as reasons
from renewed
cross join (
    select array_agg(fence) as fences, array_agg(cancel_reason) as reasons from taskforge.running where worker = $1 and cancel_requested
) c
