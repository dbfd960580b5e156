-- A finished job is to run again: its last execution goes to the others. ?1 queue · ?2 job
insert into executions (job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at, reason, output, error)
select job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at, reason, result, error
from finished where queue = ?1 and job = ?2 and epoch > 0
