-- The entries behind one seal up to another, in the order in which they are sealed. $1, $2 xact and
-- number of the last entry of the seal before · $3 limit · $4, $5 xact and number of the last entry
select xact, number, at, organization, organization_number, project, actor, action, target, before,
    after, origin, request
from taskforge.audit
where (xact, number) > ($1, $2) and (xact, number) <= ($4, $5)
order by xact, number
limit $3
