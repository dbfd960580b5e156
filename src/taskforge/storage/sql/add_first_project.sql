-- The project that an organization begins with. $1 id · $2 id of the organization · $3 now
insert into taskforge.projects (id, organization, name, created_at)
select $1, o.number, 'default', $3 from taskforge.organizations o where o.id = $2
