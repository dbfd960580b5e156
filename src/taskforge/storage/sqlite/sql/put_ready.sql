-- Put a job that is not new into ready. ?1 lane · ?2 turn · ?3 fence · ?4 project · ?5 attempt · ?6
-- max attempts · ?7 crashes · ?8 keyed ·
-- ?9 until · ?10 skipped · ?11 when its arguments first fitted no handler · ?12 key
insert into ready (lane, turn, fence, project, attempt, max_attempts, crashes, keyed, until, skipped, misfit_at, key)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
