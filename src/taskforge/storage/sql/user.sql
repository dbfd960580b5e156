-- One user. $1 id
select id, email, name, password, epoch, created_at, disabled_at from taskforge.users
where id = $1
