-- For how many microseconds each kind of upkeep has had something to do; null: it has not.
-- ?1 now · ?2 now by the clock that leases go by · reads the ends of indexes, and all of running
select ?1 - (select min(due) from waiting),
    (select max(max(?2 - coalesce(w.lease_until, ?2), ?1 - r.timeout_at, ?1 - coalesce(r.beat_by, ?1)))
        from running r left join workers w on w.incarnation = r.worker),
    ?1 - min(coalesce((select min(until) from ready where until is not null), ?1),
        coalesce((select min(until) from waiting where until is not null), ?1)),
    ?1 - (select minute + 60000000 from rollup_deltas order by number limit 1),
    ?1 - (select min(due_at) from schedules where due_at is not null)
