-- The event of an alert, unless its rule was edited meanwhile. $1 rule's number · $2 version that was
-- read · $3 topic · $4 details, JSON · $5 now
insert into taskforge.outbox (project, topic, details, at)
select project, $3, $4, $5 from taskforge.alert_rules where number = $1 and version = $2
