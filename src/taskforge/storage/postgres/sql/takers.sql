-- Workers whose lease is alive. $1 now (tests)
select id, incarnation, project, worker_type, role, capabilities::text, queues, types, true as accepts
from taskforge.workers where lease_until > coalesce($1::timestamptz, statement_timestamp())
