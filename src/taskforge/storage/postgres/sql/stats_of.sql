-- Some live queues, and how many finished jobs of each status they keep, as stats.sql has it of all. $1
-- projects · $2 ids
select q.number, q.id, q.name, q.project, q.is_active, coalesce(t.succeeded, 0) as succeeded, coalesce(t.failed, 0) as failed,
    coalesce(t.cancelled, 0) as cancelled
from (
    select number, id, name, project, is_active from taskforge.queues
    where id = any ($2::uuid[]) and project = any ($1::int[]) and deleted_at is null
) q
cross join lateral (
    select sum(count) filter (where status = 3)::bigint as succeeded, sum(count) filter (where status = 4)::bigint as failed,
        sum(count) filter (where status = 5)::bigint as cancelled
    from (
        select status, count from taskforge.tallies where tallies.queue = q.number
        union all
        select status, count from taskforge.tally_deltas where tally_deltas.project = q.project and tally_deltas.queue = q.number
    ) all_tallies
) t
order by q.name, q.id
