-- The next entries of the audit log in the order in which they are sealed. One writer at a time:
-- numbers are the order of commits, and every xact is 0. ?1, ?2 xact and number of the last sealed
-- entry · ?3 limit
select xact, number, at, organization, organization_number, project, actor, action, target, before,
    after, origin, request
from audit
where (xact, number) > (?1, ?2) and xact = 0
order by xact, number
limit ?3
