-- Put new jobs of one lane into ready. ?1 the position of each in its batch · ?2 fences, one behind
-- the other · ?3 lane · ?4 now ·
-- ?5 project · ?6 max attempts
-- One statement for the batch: row by row (executemany) it costs 3.7 µs a job, this way 1.0.
insert into ready (lane, turn, fence, project, attempt, max_attempts, crashes, keyed)
select ?3, ?4 + i.value, substr(?2, i.key * 16 + 1, 16), ?5, 0, ?6, 0, 0
from json_each(?1) i
