-- Jobs that stand in these lanes, whatever their turn or time. ?1 lanes · ?2 limit
-- `waiting` is read to its end: it has no order by lane, and a queue is deleted rarely.
select fence from (
    select r.fence from json_each(?1) i cross join ready r on r.lane = i.value
    union all
    select w.fence from waiting w where w.lane in (select value from json_each(?1))
)
limit ?2
