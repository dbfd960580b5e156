-- A worker as claims know it, and its slots. ?1 incarnation
select id, incarnation, project, worker_type, role, capabilities, queues, types, drain_mode, healthy,
    coalesce(wished_slots, max_concurrent_jobs)
from workers where incarnation = ?1
