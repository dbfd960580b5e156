-- The entries of an organization, newest first. $1 organization · $2 below this number of the organization's own · $3 action,
-- or '' · $4 actor, or '' · $5 limit · $6 pattern of the
-- target, or ''
select xact, number, at, organization, organization_number, project, actor, action, target, before,
    after, origin, request
from taskforge.audit
where organization = $1 and organization_number < $2
    and ($3 = '' or action = $3) and ($4 = '' or actor = $4) and ($6 = '' or target like $6 escape '\')
order by organization_number desc
limit $5
