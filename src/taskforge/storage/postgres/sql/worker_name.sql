-- The name under which a worker last registered. $1 worker · $2 project
select name from taskforge.workers where id = $1 and project = $2 order by registered_at desc limit 1
