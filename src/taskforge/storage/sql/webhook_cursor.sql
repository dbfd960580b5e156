-- Behind which event webhooks are told of the next ones; null: none is active.
select cursor from taskforge.webhook_cursor
