-- Events were looked at. $1 behind which · $2 up to which
update taskforge.webhook_cursor set cursor = $2 where cursor = $1
