-- Webhooks are told of what comes from here on, unless others already are. $1 cursor
update taskforge.webhook_cursor set cursor = coalesce(cursor, $1), looks = looks + 1 where one = 1
