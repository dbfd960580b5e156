-- How many jobs of each queue are ready, and the turn of the first. ?1 projects
select l.queue, sum(c.count), min(c.turn) from (
    select r.lane, count(*) as count, min(r.turn) as turn from json_each(?1) i cross join ready r on r.project = i.value group by r.lane
) c join lanes l on l.number = c.lane
group by l.queue
