-- Workers whose lease is alive and that go on claiming: for one that is drained or stops nobody
-- waits. ?1 now, by the clock that leases go by
select id, incarnation, project, worker_type, role, capabilities, queues, types, drain_mode, healthy
from workers where lease_until > ?1 and not drain_mode and not stopping
