-- Running jobs whose claim is over by the store's clock, and why: 0 deadline, 1 lease, 2 timeout, 3 heartbeat.
-- $1 limit · $2 now (tests) · reads all of running, which is as small as what runs
select * from (
    select r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, r.cancel_requested, r.timeout_seconds, r.beat_seconds,
        coalesce(w.name, r.worker::text) as worker,
        case
            when r.deadline <= c.now then 0
            when w.incarnation is null or w.lease_until <= c.now then 1
            when r.timeout_at <= c.now then 2
            when r.beat_by <= c.now then 3
        end as why
    from taskforge.running r
    left join taskforge.workers w on w.incarnation = r.worker
    cross join (select coalesce($2::timestamptz, statement_timestamp()) as now) c
) lapsed
where why is not null
limit $1
