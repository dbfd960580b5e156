-- An event of a webhook that is active. $1 its number · $2 topic · $3 details, JSON · $4 now
insert into taskforge.outbox (project, topic, details, at)
select project, $2, $3, $4 from taskforge.webhooks where number = $1 and is_active
