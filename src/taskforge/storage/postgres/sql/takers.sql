-- Workers whose lease is alive and that go on claiming: for one that is drained or stops nobody
-- waits. $1 now (tests)
select id, incarnation, project, worker_type, role, capabilities::text, queues, types, true as accepts
from taskforge.workers where lease_until > coalesce($1::timestamptz, statement_timestamp()) and not drain_mode and not stopping
