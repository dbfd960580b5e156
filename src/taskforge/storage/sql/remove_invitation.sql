-- Withdraw an invitation that nobody accepted. $1 id
delete from taskforge.invitations where id = $1 and accepted_at is null
