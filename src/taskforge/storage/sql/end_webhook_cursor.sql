-- Nobody is to be told of events: they need not be looked at.
update taskforge.webhook_cursor set cursor = null
where one = 1 and not exists (select 1 from taskforge.webhooks where is_active)
