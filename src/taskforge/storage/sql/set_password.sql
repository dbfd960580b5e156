-- A new password; the epoch ends every access token that was signed before. $1 user · $2 hash of
-- the password
update taskforge.users set password = $2, epoch = epoch + 1 where id = $1
