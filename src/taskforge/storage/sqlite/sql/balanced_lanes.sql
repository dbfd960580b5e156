-- The lanes of these queues that hold jobs, placed or not; a look at the head of each lane, whatever
-- else the project holds. ?1 queues
select l.number from json_each(?1) q join lanes l on l.queue = q.value
where (select 1 from ready r where r.project = l.project and r.lane = l.number limit 1)
