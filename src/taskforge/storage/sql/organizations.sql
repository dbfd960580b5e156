-- All organizations with their ceilings.
select o.number, o.id, o.name, o.created_at, c.projects, c.queues, c.pending_jobs, c.workers
from taskforge.organizations o left join taskforge.ceilings c on c.organization = o.number
order by o.number
