-- Events behind ($1, $2), in the order of their transactions. Only those of transactions that no
-- unfinished one can precede: a late commit is never skipped. One row without an event when there
-- is none: it tells the horizon, and whether events behind the cursor were pruned.
-- $3 limit
select e.xact, e.number, e.project, e.topic, e.queue, e.worker, e.jobs, e.details, e.at, h.xmin as horizon,
    (c.pruned_xact, c.pruned_event) > ($1, $2) and c.pruned_xact < h.xmin as gone
from taskforge.horizons c
cross join lateral (select c.added_to_xact + pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xmin offset 0) h
left join lateral (
    select * from taskforge.outbox o where (o.xact, o.number) > ($1, $2) and o.xact < h.xmin order by o.xact, o.number limit $3
) e on true
order by e.xact, e.number
