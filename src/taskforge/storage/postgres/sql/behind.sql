-- For how many seconds each kind of upkeep has had something to do; null: it has not.
-- $1 now (tests) · reads the ends of indexes, and all of running, which is as small as what runs
with clock as materialized (
    select coalesce($1::timestamptz, statement_timestamp()) as now
)
select date_part('epoch', c.now - (select min(due) from taskforge.waiting)) as staging,
    (select max(date_part('epoch', c.now - least(w.lease_until, r.timeout_at, r.beat_by)))
        from taskforge.running r left join taskforge.workers w on w.incarnation = r.worker) as rescue,
    date_part('epoch', c.now - least(
        (select min(until) from taskforge.ready where until is not null),
        (select min(until) from taskforge.waiting where until is not null))) as expiry,
    date_part('epoch', c.now - (select minute + interval '1 minute' from taskforge.rollup_deltas order by number limit 1)) as folding,
    date_part('epoch', c.now - (select min(due_at) from taskforge.schedules where due_at is not null)) as scheduler
from clock c
