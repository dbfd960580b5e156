-- Scaling policies with what else is shown of them, those of queues that are there.
select p.queue as number, p.id, p.project, q.name as queue, q.id as queue_id, q.is_active as is_queue_active, p.provider,
    p.is_paused, p.is_dry_run, p.policy, p.state, p.state_version, p.version, p.created_at, p.updated_at
from taskforge.scaling_policies p join taskforge.queues q on q.number = p.queue
