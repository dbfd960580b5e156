-- Executions that ended alike. ?1 project · ?2 queue · ?3 lane · ?4 incarnation · ?5 minute · ?6
-- status · ?7 count · ?8 durations and ?9 waits of each
insert into rollup_deltas (project, queue, lane, worker, minute, status, count, durations, waits)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
