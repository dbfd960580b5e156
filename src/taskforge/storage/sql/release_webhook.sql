-- It is held back no more. $1 number
update taskforge.webhooks set held_until = null where number = $1
