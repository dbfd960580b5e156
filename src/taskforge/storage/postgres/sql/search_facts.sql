-- A stretch of the jobs of each of some queues, newest first: how many rows were looked at, the last
-- of them and those that match. Written as a range of (queue, id), in that order, only the index of
-- both can serve: with `queue = …` and the order of ids, statistics that know of one large queue make
-- the planner walk the primary key for a small one, through all there is.
-- $1 queues · $2 older than, for each · $3 rows of each · $4 from this id on · $5 types and $6
-- priorities, or null
select w.place::int as place, x.looked, x.last, x.ids
from unnest($1::int[], $2::uuid[]) with ordinality as w (queue, below, place)
cross join lateral (
    select count(*)::int as looked, (array_agg(j.id))[count(*)] as last, array_agg(j.id) filter (where
        ($5::text[] is null or j.job_type = any ($5)) and ($6::int[] is null or j.priority = any ($6))
    ) as ids
    from (
        select j.id, j.job_type, j.priority from taskforge.jobs j
        where (j.queue, j.id) >= (w.queue, $4::uuid) and (j.queue, j.id) < (w.queue, w.below)
        order by j.queue desc, j.id desc limit $3::int
    ) j
) x
