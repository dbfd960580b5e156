-- What runs of each fairness key of these limited queues, and of these keys what ran before and waits
-- to be tried again. A statement of its own: its snapshot must be younger than the gates' lock.
-- $1 queues · $2 keys
select queue, key, sum(running)::int as running, sum(waiting)::int as waiting
from (
    select r.gate as queue, r.key, 1 as running, 0 as waiting
    from taskforge.running r where r.gate = any ($1::int[]) and r.key is not null
    union all
    select l.queue, w.key, 0, 1
    from taskforge.waiting w join taskforge.lanes l on l.number = w.lane
    where w.key = any ($2::bigint[]) and l.queue = any ($1::int[]) and w.turn is not null
) c
group by queue, key
