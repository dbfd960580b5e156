-- What a webhook's requests are signed with. $1 number
select secret, old_secret, old_secret_until from taskforge.webhooks where number = $1
