-- Executions that ended alike. ?1 project · ?2 queue · ?3 lane · ?4 incarnation · ?5 minute · ?6
-- status · ?7 duration bucket ·
-- ?8 wait bucket · ?9 count · ?10 sum of durations · ?11 sum of waits
insert into rollup_deltas (project, queue, lane, worker, minute, status, duration_bucket, wait_bucket, count, duration_ms, wait_ms)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
