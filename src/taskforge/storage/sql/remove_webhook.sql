-- Remove a webhook. $1 number · $2 the version that was read, or 0 for whichever it has
delete from taskforge.webhooks where number = $1 and ($2 = 0 or version = $2)
