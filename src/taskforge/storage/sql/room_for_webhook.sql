-- A row, unless the project has as many webhooks as it may have. $1 project · $2 how many
select 1 where (select count(*) from taskforge.webhooks where project = $1) < $2
