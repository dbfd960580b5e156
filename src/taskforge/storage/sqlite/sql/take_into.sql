-- A key that stands for a worker (from 2^62 on) is of no use once that worker has the job.
-- Claim, second step: put into running what `take` has read, up to its last row.
-- ?1 lane · ?2 turn and ?3 fence of the last · ?4 the worker's id in hexadecimal · ?5 incarnation ·
-- ?6 now · ?7 the queue's timeout and
-- ?8 heartbeat timeout in seconds · ?9 gate · ?10 turn of the first · ?11 incarnation in
-- hexadecimal · ?12 project · ?13 key
insert into running (fence, project, lane, worker, attempt, max_attempts, crashes, keyed, turn, claimed_at, timeout_at, timeout_seconds, beat_by,
    beat_seconds, deadline, gate, key, skipped, misfit_at)
select r.fence, r.project, r.lane, ?5, r.attempt + 1, r.max_attempts, r.crashes, r.keyed, r.turn, ?6,
    ?6 + cast(round(coalesce(j.timeout_seconds, ?7) * 1000000) as integer), coalesce(j.timeout_seconds, ?7),
    ?6 + cast(round(?8 * 1000000) as integer), ?8, j.deadline, ?9, case when r.key < 4611686018427387904 then r.key else 0 end, r.skipped, r.misfit_at
from ready r left join jobs j on j.id = r.job
where r.project = ?12 and r.lane = ?1 and r.key = ?13 and r.turn >= ?10 and (r.turn, r.fence) <= (?2, ?3) and (r.skipped is null or (instr(r.skipped, ?4) = 0 and instr(r.skipped, ?11) = 0)) and (r.until is null or r.until > ?6)
