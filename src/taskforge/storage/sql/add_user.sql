-- A user, unless the address is one's already. $1 id · $2 email · $3 name · $4 hash of the
-- password, or null · $5 now
insert into taskforge.users (id, email, name, password, created_at) values ($1, $2, $3, $4, $5)
on conflict (email) do nothing
