-- A row, unless the project has an alert rule of this name. $1 project · $2 name
select 1 where not exists (select 1 from taskforge.alert_rules where project = $1 and name = $2)
