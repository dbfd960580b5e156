-- Send a delivery again, whatever came of it: it is due at once, and begins its tries anew. $1 number ·
-- $2 now
update taskforge.webhook_deliveries set status = 'pending', attempts = 0, due_at = $2, ended_at = null
where number = $1
