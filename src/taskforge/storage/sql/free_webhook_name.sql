-- A row, unless the project has a webhook of this name. $1 project · $2 name
select 1 where not exists (select 1 from taskforge.webhooks where project = $1 and name = $2)
