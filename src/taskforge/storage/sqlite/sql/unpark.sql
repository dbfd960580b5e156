-- What waits for a worker whose handler its arguments fit is offered to one that is new. ?1 now ·
-- ?2 project · ?3 its types · ?4 limit
update waiting set due = ?1
where fence in (
    select w.fence from lanes l cross join waiting w on w.lane = l.number and w.skipped is not null and w.due > ?1
    where l.project = ?2 and (?3 is null or l.job_type in (select value from json_each(?3)))
    limit ?4)
