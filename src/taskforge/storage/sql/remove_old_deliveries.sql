-- Remove deliveries that were made long ago. $1 before this time · $2 limit
delete from taskforge.webhook_deliveries where number in (
    select number from taskforge.webhook_deliveries where created_at < $1 order by created_at limit $2
) returning number
