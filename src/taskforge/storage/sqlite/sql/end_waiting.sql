-- End jobs that stand in waiting; `leave_waiting` follows. ?1 fences, one behind the other · ?2 for
-- each [status, reason, error] · ?3 now
insert into finished (queue, job, project, status, epoch, attempt, max_attempts, crashes, finished_at, reason, error)
select l.queue, p.job, p.project, i.value ->> 0, 0, p.attempt, p.max_attempts, p.crashes, ?3, i.value ->> 1, i.value ->> 2
from json_each(?2) i
cross join waiting p on p.fence = substr(?1, i.key * 16 + 1, 16)
cross join lanes l on l.number = p.lane
returning queue, job, status, project
