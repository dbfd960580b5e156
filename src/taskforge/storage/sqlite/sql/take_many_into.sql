-- Claim from several lanes of one queue, second step: put into running what `take_many` has read.
-- ?1 for each lane [number, turn of the last] · ?2 fences of the last, one behind the other · ?3 the worker's id in hexadecimal · ?4 incarnation ·
-- ?5 now · ?6 the queue's timeout and ?7 heartbeat timeout in seconds · ?8 gate
insert into running (fence, project, lane, worker, attempt, max_attempts, crashes, keyed, turn, claimed_at, timeout_at, timeout_seconds, beat_by,
    beat_seconds, deadline, gate, skipped)
select r.fence, r.project, r.lane, ?4, r.attempt + 1, r.max_attempts, r.crashes, r.keyed, r.turn, ?5,
    ?5 + cast(round(coalesce(j.timeout_seconds, ?6) * 1000000) as integer), coalesce(j.timeout_seconds, ?6),
    ?5 + cast(round(?7 * 1000000) as integer), ?7, j.deadline, ?8, r.skipped
from json_each(?1) i
cross join ready r on r.lane = i.value ->> 0 and (r.turn, r.fence) <= (i.value ->> 1, substr(?2, i.key * 16 + 1, 16))
left join jobs j on j.id = r.job
where r.skipped is null or instr(r.skipped, ?3) = 0
