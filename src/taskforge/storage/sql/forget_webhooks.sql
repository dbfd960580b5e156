-- What is left of the webhooks of a project that is removed: their deliveries, which go slice by
-- slice. $1 project
insert into taskforge.removed_webhooks (webhook)
select number from taskforge.webhooks where project = $1
