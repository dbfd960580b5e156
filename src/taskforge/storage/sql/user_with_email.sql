-- The user of an address. $1 email
select id, email, name, password, epoch, created_at, disabled_at from taskforge.users
where email = $1
