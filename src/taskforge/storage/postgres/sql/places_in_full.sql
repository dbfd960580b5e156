-- How many jobs of each queue of a project stand where, all of them counted, and the turn of the first
-- that is ready. Ready jobs with a fairness key stand in an index of their own. $1 project
with held as materialized (
    select 0 as place, r.lane, count(*) as count, min(r.turn) as turn from taskforge.ready r where r.project = $1 and r.key is null group by 2
    union all
    select 0, r.lane, count(*), min(r.turn) from taskforge.ready r where r.project = $1 and r.key is not null group by 2
    union all
    select 1, w.lane, count(*), null from taskforge.waiting w where w.project = $1 group by 2
    union all
    select 2, r.lane, count(*), null from taskforge.running r where r.project = $1 group by 2
)
select h.place, $1::int as project, l.queue, sum(h.count)::bigint as count, min(h.turn) as turn
from held h cross join lateral (select l.queue from taskforge.lanes l where l.number = h.lane limit 1) l
group by 1, 3
