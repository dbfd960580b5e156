-- Every incarnation of a worker, so that nothing changes it meanwhile. $1 worker id · $2 project
select from taskforge.workers where id = $1 and project = $2 order by incarnation for update
