-- End: write into finished the claims that are over; `leave_running` follows.
-- ?1 fences, one behind the other · ?2 for each [queue, status, epoch, began, result, error, reason] · ?3 now
-- One statement that joins what the caller knows to what running holds: 2.1 µs a job. Carried back row by row (executemany) it is
-- 4.1 µs, and `delete … returning` costs 3.4 where a narrow select and a plain delete cost 2.3.
insert into finished (queue, job, project, status, epoch, attempt, max_attempts, crashes, worker, claimed_at, started_at, finished_at, progress,
    reason, message, result, error)
select i.value ->> 0, r.job, r.project, i.value ->> 1, i.value ->> 2, r.attempt, r.max_attempts, r.crashes, r.worker, r.claimed_at,
    i.value ->> 3, ?3, r.progress, i.value ->> 6, r.message, i.value ->> 4, i.value ->> 5
from json_each(?2) i cross join running r on r.fence = substr(?1, i.key * 16 + 1, 16)
