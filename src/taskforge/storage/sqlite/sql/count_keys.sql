-- What runs of each fairness key of a limited queue, and what ran before and waits to be tried again.
-- ?1 queue
select key, sum(running), sum(waiting) from (
    select key, 1 as running, 0 as waiting from running where gate = ?1 and key > 0
    union all
    select w.key, 0, 1 from waiting w cross join lanes l on l.number = w.lane
    where w.turn is not null and l.queue = ?1
)
group by key
