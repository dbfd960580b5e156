-- Nothing is left of a webhook that is gone. $1 webhook
delete from taskforge.removed_webhooks
where webhook = $1 and not exists (select 1 from taskforge.webhook_deliveries d where d.webhook = $1)
