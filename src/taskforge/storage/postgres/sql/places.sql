-- How many jobs of each queue stand where, and the turn of the first that is ready: of each project's
-- ready jobs, and of all that wait or run, no more rows are counted than so many and one. Ready jobs
-- with a fairness key stand in an index of their own.
-- $1 projects · $2 most
with held as materialized (
    select 0 as place, p.number as project, r.lane, count(*) as count, min(r.turn) as turn
    from unnest($1::int[]) as p (number) cross join lateral (
        (select r.lane, r.turn from taskforge.ready r where r.project = p.number and r.key is null order by r.lane, r.turn limit $2::int + 1)
        union all
        (select r.lane, r.turn from taskforge.ready r
            where r.project = p.number and r.key is not null order by r.lane, r.key, r.turn limit $2::int + 1)
        limit $2::int + 1
    ) r
    group by 2, 3
    union all
    select 1, w.project, w.lane, count(*), null
    from (select w.project, w.lane from taskforge.waiting w order by w.fence limit $2::int + 1) w group by 2, 3
    union all
    select 2, r.project, r.lane, count(*), null
    from (select r.project, r.lane from taskforge.running r order by r.fence limit $2::int + 1) r group by 2, 3
)
select h.place, h.project, l.queue, sum(h.count)::bigint as count, min(h.turn) as turn
from held h cross join lateral (select l.queue from taskforge.lanes l where l.number = h.lane limit 1) l
group by 1, 2, 3
