-- Counts of each live queue: places are counted, finished jobs come from tallies, whose cost does
-- not grow with history.
-- $1 projects
with lane as materialized (
    select number, project, queue from taskforge.lanes where project = any ($1::int[])
)
select q.id, q.name, q.is_active, coalesce(r.count, 0) as pending, r.turn, coalesce(w.count, 0) as scheduled,
    coalesce(x.count, 0) as processing, coalesce(t.succeeded, 0) as succeeded, coalesce(t.failed, 0) as failed,
    coalesce(t.cancelled, 0) as cancelled
from taskforge.queues q
left join (
    select l.queue, sum(c.count)::bigint as count, min(c.turn) as turn
    from lane l cross join lateral (
        select count(*) as count, min(turn) as turn from taskforge.ready where ready.project = l.project and ready.lane = l.number
    ) c group by 1
) r on r.queue = q.number
left join (
    select l.queue, count(*) as count from taskforge.waiting join lane l on l.number = waiting.lane group by 1
) w on w.queue = q.number
left join (
    select l.queue, count(*) as count from taskforge.running join lane l on l.number = running.lane group by 1
) x on x.queue = q.number
left join (
    select queue, sum(count) filter (where status = 3)::bigint as succeeded, sum(count) filter (where status = 4)::bigint as failed,
        sum(count) filter (where status = 5)::bigint as cancelled
    from (
        select queue, status, count from taskforge.tallies where project = any ($1::int[])
        union all
        select queue, status, count from taskforge.tally_deltas where project = any ($1::int[])
    ) all_tallies group by 1
) t on t.queue = q.number
where q.project = any ($1::int[]) and q.deleted_at is null
order by q.name, q.id
