-- One project with its quotas. $1 number
select p.number, p.id, p.organization, p.name, p.created_at, q.enqueue_per_minute, q.pending_jobs,
    q.workers, q.payload_bytes_per_minute, q.schedules, p.version
from taskforge.projects p left join taskforge.quotas q on q.project = p.number
where p.number = $1
