-- How many jobs of each queue of a project stand where, all of them counted, and the turn of the first
-- that is ready. ?1 project
select h.place, ?1, l.queue, sum(h.count), min(h.turn) from (
    select 0 as place, r.lane, count(*) as count, min(r.turn) as turn from ready r where r.project = ?1 group by r.lane
    union all
    select 1, w.lane, count(*), null from waiting w where w.project = ?1 group by w.lane
    union all
    select 2, r.lane, count(*), null from running r where r.project = ?1 group by r.lane
) h cross join lanes l on l.number = h.lane
group by h.place, l.queue
