-- A shared secret, unless there is one; returns a row to the first. $1 name · $2 value · $3 now
insert into taskforge.secrets (name, value, created_at) values ($1, $2, $3)
on conflict (name) do nothing
returning name
