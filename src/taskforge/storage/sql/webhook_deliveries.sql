-- Deliveries of a webhook, the newest first. $1 webhook · $2 before this number · $3 a status alone, or
-- nothing · $4 limit
-- include: delivery_columns
where webhook = $1 and number < $2 and ($3 = '' or status = $3) order by number desc limit $4
