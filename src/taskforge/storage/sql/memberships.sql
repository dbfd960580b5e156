-- The organizations that a user is a member of. $1 user
select m.organization, m.member, u.email, u.name, m.role, m.created_at
from taskforge.memberships m join taskforge.users u on u.id = m.member
where m.member = $1
order by m.organization
