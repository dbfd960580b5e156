-- One organization with its ceiling. $1 number
select o.number, o.id, o.name, o.created_at, c.projects, c.queues, c.pending_jobs, c.workers,
    c.enqueue_per_minute, c.bytes_per_minute, c.stored_bytes, c.streams
from taskforge.organizations o left join taskforge.ceilings c on c.organization = o.number
where o.number = $1
