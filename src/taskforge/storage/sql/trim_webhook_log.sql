-- Of the deliveries of a webhook that ended, only the newest are kept. $1 webhook · $2 how many ·
-- $3 limit of what is removed
delete from taskforge.webhook_deliveries where number in (
    select d.number from taskforge.webhook_deliveries d
    where d.webhook = $1 and d.ended_at is not null and d.number <= (
        select n.number from taskforge.webhook_deliveries n
        where n.webhook = $1 and n.ended_at is not null order by n.number desc limit 1 offset $2)
    order by d.number limit $3)
