-- End: write into finished the claims that failed or were cancelled; `leave_running` follows.
-- Of two reasons for a cancel the operator's counts.
-- ?1 fences, one behind the other · ?2 for each [queue, status, epoch, began, error, reason, place of its failure] · ?3
-- now · ?4 the groups of failures, one behind the other, whose places count from 0
insert into finished (queue, job, project, status, epoch, attempt, max_attempts, crashes, worker, claimed_at, started_at, finished_at, progress,
    reason, message, error, failure)
select i.value ->> 0, r.job, r.project, i.value ->> 1, i.value ->> 2, r.attempt, r.max_attempts, r.crashes, r.worker, r.claimed_at,
    i.value ->> 3, ?3, r.progress,
    case when i.value ->> 1 = 5 then coalesce(r.cancel_reason, i.value ->> 5) else i.value ->> 5 end, r.message, i.value ->> 4,
    case when i.value ->> 6 is not null then substr(?4, (i.value ->> 6) * 16 + 1, 16) end
from json_each(?2) i cross join running r on r.fence = substr(?1, i.key * 16 + 1, 16)
