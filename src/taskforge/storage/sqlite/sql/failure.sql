-- Attempts that failed alike, with one of them. ?1 project · ?2 queue · ?3 job type · ?4 group · ?5
-- count · ?6 job · ?7 epoch · ?8 error type · ?9 message, as far as groups go by it · ?10 now
insert into failure_deltas (project, queue, job_type, failure, count, job, epoch, error_type, message, at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
