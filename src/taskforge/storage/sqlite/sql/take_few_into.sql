-- A key that stands for a worker (from 2^62 on) is of no use once that worker has the job.
-- Put into running what `take_few` has read, all of one queue. ?1 fences, one behind the other ·
-- ?2 a list as long · ?3 incarnation · ?4 now · ?5 the queue's timeout and ?6 heartbeat timeout in
-- seconds · ?7 gate
insert into running (fence, project, lane, worker, attempt, max_attempts, crashes, keyed, turn, claimed_at, timeout_at, timeout_seconds, beat_by,
    beat_seconds, deadline, gate, key, skipped, misfit_at)
select r.fence, r.project, r.lane, ?3, r.attempt + 1, r.max_attempts, r.crashes, r.keyed, r.turn, ?4,
    ?4 + cast(round(coalesce(j.timeout_seconds, ?5) * 1000000) as integer), coalesce(j.timeout_seconds, ?5),
    ?4 + cast(round(?6 * 1000000) as integer), ?6, j.deadline, ?7, case when r.key < 4611686018427387904 then r.key else 0 end, r.skipped, r.misfit_at
from json_each(?2) i cross join ready r on r.fence = substr(?1, i.key * 16 + 1, 16) left join jobs j on j.id = r.job
