-- What waits for a worker whose handler its arguments fit is offered to one that is new. Lanes that
-- hold such jobs are found by skipping from one to the next, however many others there are. ?1 now ·
-- ?2 project · ?3 its types · ?4 limit
update waiting set due = ?1
where fence in (
    with recursive held (lane) as (
        select (select w.lane from waiting w where w.project = ?2 and w.skipped is not null order by w.lane limit 1)
        union all
        select (select w.lane from waiting w where w.project = ?2 and w.skipped is not null and w.lane > h.lane order by w.lane limit 1)
        from held h where h.lane is not null
    )
    select w.fence from held h cross join lanes l on l.number = h.lane
    cross join waiting w on w.project = ?2 and w.lane = h.lane and w.skipped is not null and w.due > ?1
    where ?3 is null or l.job_type in (select value from json_each(?3))
    limit ?4)
