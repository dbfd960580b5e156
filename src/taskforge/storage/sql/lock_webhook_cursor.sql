-- Whoever makes a webhook active waits until this transaction is over, or was before it.
update taskforge.webhook_cursor set looks = looks + 1 where one = 1
