-- An execution that ended while its job lives on. ?1 job · ?2 epoch · ?3 project · ?4 attempt · ?5
-- status · ?6 incarnation · ?7 claimed at ·
-- ?8 began · ?9 now · ?10 reason · ?11 error
insert into executions (job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at, reason, error)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
