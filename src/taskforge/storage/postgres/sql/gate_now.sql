-- What a queue's limits remember, without waiting for whoever claims. $1 queue · $2 now (tests)
select g.tokens, g.refreshed_at, g.rate, g.judged_at, g.behind,
    (select count(*) from taskforge.running where gate = q.number) as running,
    date_part('epoch', coalesce($2::timestamptz, clock_timestamp()))::float8 as now
from (select $1::int as number) q left join taskforge.gates g on g.queue = q.number
