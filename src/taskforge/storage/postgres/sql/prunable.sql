-- Finished jobs that ended before the cutoff of their queue. For each queue $1 number · $2 ids below
-- this · $3 cutoff · and $4 limit of all
select q.number as queue, f.job
from unnest($1::int[], $2::uuid[], $3::timestamptz[]) as q (number, below, cutoff)
cross join lateral (
    select job from taskforge.finished where queue = q.number and job < q.below and finished_at < q.cutoff order by job limit $4
) f
limit $4
