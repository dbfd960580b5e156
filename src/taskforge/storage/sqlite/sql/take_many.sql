-- The first jobs of several lanes, up to the last of each, with what their handlers need.
-- ?1 for each lane [number, turn of the last] · ?2 fences of the last, one behind the other · ?3 the worker's id in hexadecimal
select r.fence, r.turn, r.attempt, r.max_attempts, r.crashes, j.timeout_seconds, j.deadline, j.tags, j.trace, j.payload, i.key
from json_each(?1) i
cross join ready r on r.lane = i.value ->> 0 and (r.turn, r.fence) <= (i.value ->> 1, substr(?2, i.key * 16 + 1, 16))
left join jobs j on j.id = r.job
where r.skipped is null or instr(r.skipped, ?3) = 0
