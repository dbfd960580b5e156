-- How many jobs of each queue stand where, and the turn of the first that is ready: of each project's
-- ready jobs, and of all that wait or run, no more rows are counted than so many. Statements by project
-- are one for each, as SQLite has no lateral. ?1 project · ?2 most
select h.place, h.project, l.queue, sum(h.count), min(h.turn) from (
    select 0 as place, ?1 as project, r.lane, count(*) as count, min(r.turn) as turn
    from (select r.lane, r.turn from ready r where r.project = ?1 order by r.lane, r.key, r.turn limit ?2) r group by r.lane
    union all
    select 1, w.project, w.lane, count(*), null from (select w.project, w.lane from waiting w limit ?2) w group by w.project, w.lane
    union all
    select 2, r.project, r.lane, count(*), null from (select r.project, r.lane from running r limit ?2) r group by r.project, r.lane
) h cross join lanes l on l.number = h.lane
group by h.place, h.project, l.queue
