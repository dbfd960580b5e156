-- Tokens that ended before this. $1 time
delete from taskforge.tokens where expires_at < $1
