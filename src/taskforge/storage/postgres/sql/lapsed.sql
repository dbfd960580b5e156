-- Running jobs whose claim is over by the store's clock, and why: 0 deadline, 1 lease, 2 timeout, 3 heartbeat, 4 any of the last three,
-- while another job held its worker's event loop. That one's timeout goes before the death of the worker that it brought about.
-- $1 limit · $2 now (tests) · $3 seconds: none if somebody has looked within them · reads all of running, which is as small as what runs
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
),
mine as (
    -- Who finds the row locked does not wait: somebody looks just now.
    update taskforge.looks set at = (select now from clock) where one = (
        select one from taskforge.looks
        where at <= (select now from clock) - make_interval(secs => $3) or at > (select now from clock)
        for update skip locked)
    returning at
)
select * from (
    select r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, r.cancel_requested, r.timeout_seconds, r.beat_seconds,
        coalesce(w.name, r.worker::text) as worker,
        case
            when r.deadline <= c.now then 0
            when w.blocking <> r.fence and (w.lease_until <= c.now or r.timeout_at <= c.now or r.beat_by <= c.now) then 4
            when w.blocking = r.fence and r.timeout_at <= c.now then 2
            when w.incarnation is null or w.lease_until <= c.now then 1
            when r.timeout_at <= c.now then 2
            when r.beat_by <= c.now then 3
        end as why
    from taskforge.running r
    left join taskforge.workers w on w.incarnation = r.worker
    cross join clock c
    where exists (select from mine)
) lapsed
where why is not null
limit $1
