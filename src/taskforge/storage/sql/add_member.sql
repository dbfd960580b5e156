-- A user's place in an organization, unless there is one. $1 organization · $2 the user's email ·
-- $3 role · $4 now
insert into taskforge.memberships (organization, member, role, created_at)
select $1, u.id, $3, $4 from taskforge.users u where u.email = $2
on conflict (organization, member) do nothing
