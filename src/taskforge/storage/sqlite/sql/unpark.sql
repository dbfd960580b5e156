-- A worker has registered: what waits for one whose handler its arguments fit is offered to it. ?1 now · ?2 project · ?3 its types
update waiting set due = ?1
where skipped is not null and due > ?1 and lane in (
    select number from lanes where project = ?2 and (?3 is null or job_type in (select value from json_each(?3))))
