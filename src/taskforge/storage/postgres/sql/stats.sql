-- Live queues, and how many finished jobs of each status they keep: from tallies, whose cost does not
-- grow with history. $1 projects
select q.number, q.id, q.name, q.project, q.is_active, coalesce(t.succeeded, 0) as succeeded, coalesce(t.failed, 0) as failed,
    coalesce(t.cancelled, 0) as cancelled
from taskforge.queues q
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
