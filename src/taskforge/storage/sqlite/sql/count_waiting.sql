-- How many jobs of each queue are waiting. ?1 projects
select l.queue, count(*) from waiting p join lanes l on l.number = p.lane
where p.project in (select value from json_each(?1)) group by l.queue
