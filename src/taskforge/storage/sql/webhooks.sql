-- The webhooks of a project, in the order in which they were made. $1 project · $2 behind this number
-- · $3 limit
-- include: webhook_columns
where project = $1 and number > $2 order by number limit $3
