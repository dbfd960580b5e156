-- The first names of these projects' live queues, to tell the nearest to one that none has. ?1
-- projects
select name from queues where project in (select value from json_each(?1)) and deleted_at is null order by name limit 1000
