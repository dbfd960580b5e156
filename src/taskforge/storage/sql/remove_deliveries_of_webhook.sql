-- Remove deliveries of a webhook that is gone. $1 webhook · $2 limit
delete from taskforge.webhook_deliveries where number in (
    select number from taskforge.webhook_deliveries where webhook = $1 order by number limit $2
) returning number
