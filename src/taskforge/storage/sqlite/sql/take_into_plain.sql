-- A key that stands for a worker (from 2^62 on) is of no use once that worker has the job.
-- Claim, second step, for jobs without a timeout or deadline of their own: the same as `take_into`
-- without a look at their facts.
-- ?1 lane · ?2 turn and ?3 fence of the last · ?4 the worker's id in hexadecimal · ?5 incarnation ·
-- ?6 now · ?7 the queue's timeout and
-- ?8 heartbeat timeout in seconds · ?9 gate · ?10 turn of the first · ?11 incarnation in
-- hexadecimal · ?12 project · ?13 key
insert into running (fence, project, lane, worker, attempt, max_attempts, crashes, keyed, turn, claimed_at, timeout_at, timeout_seconds, beat_by,
    beat_seconds, gate, key, skipped, misfit_at)
select fence, project, lane, ?5, attempt + 1, max_attempts, crashes, keyed, turn, ?6, ?6 + cast(round(?7 * 1000000) as integer), ?7,
    ?6 + cast(round(?8 * 1000000) as integer), ?8, ?9, case when key < 4611686018427387904 then key else 0 end, skipped, misfit_at
from ready
where project = ?12 and lane = ?1 and key = ?13 and turn >= ?10 and (turn, fence) <= (?2, ?3) and (skipped is null or (instr(skipped, ?4) = 0 and instr(skipped, ?11) = 0)) and (until is null or until > ?6)
