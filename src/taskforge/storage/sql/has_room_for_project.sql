-- A row if the organization may have one more project. $1 organization
select o.number
from taskforge.organizations o left join taskforge.ceilings c on c.organization = o.number
where o.number = $1 and (c.projects is null
    or c.projects > (select count(*) from taskforge.projects p where p.organization = $1))
