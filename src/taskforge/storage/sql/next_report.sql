-- When the next report of a webhook is due. $1 number · $2 then
update taskforge.webhooks set report_at = $2 where number = $1 and report_at is not null
