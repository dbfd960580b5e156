-- A webhook. $1 id
-- include: webhook_columns
where id = $1
