-- Lock the limiter state of these queues; one that another claim holds just now is left out.
-- $1 queues · $2 now (tests)
select queue, tokens, refreshed_at, rate, judged_at, behind,
    date_part('epoch', coalesce($2::timestamptz, clock_timestamp()))::float8 as now
from taskforge.gates where queue = any ($1::int[]) order by queue for update skip locked
