-- A webhook by its name. $1 project · $2 name
-- include: webhook_columns
where project = $1 and name = $2
