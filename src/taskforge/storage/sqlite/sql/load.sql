-- How many slots the workers of a project have that accept jobs, how many of them are free, and how
-- many jobs of these lanes are ready, counted to one more than that.
-- ?1 project · ?2 lanes · ?3 now by the clock that leases go by
with free as materialized (
    select coalesce(sum(w.slots), 0) as slots, coalesce(sum(max(0, w.slots - w.stuck_slots - w.running)), 0) as free
    from (
        select coalesce(wished_slots, max_concurrent_jobs) as slots, stuck_slots,
            (select count(*) from running r where r.worker = workers.incarnation) as running
        from workers where project = ?1 and lease_until > ?3 and not drain_mode and healthy
    ) w
)
select slots, free, (
    select count(*) from (
        select 1 from json_each(?2) i cross join ready r on r.project = ?1 and r.lane = i.value
        limit (select free + 1 from free)
    )
) from free
