-- Jobs that stand in these queues, whatever their turn or time. ?1 queues · ?2 limit
-- `waiting` is read to its end: it has no order by lane, and a queue is deleted rarely.
select fence from (
    select r.fence from json_each(?1) i cross join lanes l on l.queue = i.value
        cross join ready r on r.project = l.project and r.lane = l.number
    union all
    select w.fence from waiting w where w.lane in (select l.number from lanes l where l.queue in (select value from json_each(?1)))
)
limit ?2
