-- Running jobs whose claim is over by the store's clock, and why: 0 deadline, 1 lease, 2 timeout, 3 heartbeat, 4 any of the last three,
-- while another job held its worker's event loop. That one's timeout goes before the death of the worker that it brought about.
-- ?1 now · ?2 limit
-- Reads all of running, which is as small as what runs.
select * from (
    select r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, r.cancel_requested, r.timeout_seconds, r.beat_seconds, w.name, r.worker,
        case
            when r.deadline <= ?1 then 0
            when w.blocking <> r.fence and (w.lease_until <= ?1 or r.timeout_at <= ?1 or r.beat_by <= ?1) then 4
            when w.blocking = r.fence and r.timeout_at <= ?1 then 2
            when w.incarnation is null or w.lease_until <= ?1 then 1
            when r.timeout_at <= ?1 then 2
            when r.beat_by <= ?1 then 3
        end as why,
        coalesce(r.deadline <= ?1, 0) as late
    from running r left join workers w on w.incarnation = r.worker
)
where why is not null
limit ?2
