-- The members of an organization. $1 organization
select m.organization, m.member, u.email, u.name, m.role, m.created_at
from taskforge.memberships m join taskforge.users u on u.id = m.member
where m.organization = $1
order by u.email
