-- Put a job into waiting. ?1 fence · ?2 project · ?3 lane · ?4 attempt · ?5 max attempts · ?6
-- crashes · ?7 keyed · ?8 due · ?9 until ·
-- ?10 when its arguments first fitted no handler · ?11 key · ?12 turn that it keeps
insert into waiting (fence, project, lane, attempt, max_attempts, crashes, keyed, due, until, misfit_at, key, turn)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
