-- A project, unless its organization has one of that name; returns its number. $1 id · $2
-- organization · $3 name · $4 now
insert into taskforge.projects (id, organization, name, created_at) values ($1, $2, $3, $4)
on conflict (organization, name) do nothing
returning number
