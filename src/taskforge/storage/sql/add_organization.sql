-- An organization, unless its name is taken; returns its number. $1 id · $2 name · $3 now
insert into taskforge.organizations (id, name, created_at) values ($1, $2, $3)
on conflict (name) do nothing
returning number
