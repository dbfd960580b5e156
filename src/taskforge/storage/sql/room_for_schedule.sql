-- A row, unless the project has as many schedules as it may have. $1 project · $2 quota
select 1 where (select count(*) from taskforge.schedules where project = $1) < $2
