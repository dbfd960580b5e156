-- A row, unless a schedule of the project has this name. $1 project · $2 name
select 1 where not exists (select 1 from taskforge.schedules where project = $1 and name = $2)
