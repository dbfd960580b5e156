-- What is left of a webhook that is removed: its deliveries, which go slice by slice. $1 number
insert into taskforge.removed_webhooks (webhook) values ($1)
