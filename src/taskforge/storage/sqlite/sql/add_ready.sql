-- Put new jobs into ready, in the order given. ?1 for each [lane, max attempts, keyed, until], the last two may be missing ·
-- ?2 project · ?3 now · ?4 fences, one behind the other
-- One statement for the batch: row by row (executemany) it costs 3.1 µs a job, this way 0.9.
insert into ready (lane, turn, fence, project, attempt, max_attempts, crashes, keyed, until)
select i.value ->> 0, ?3 + i.key, substr(?4, i.key * 16 + 1, 16), ?2, 0, i.value ->> 1, 0, coalesce(i.value ->> 2, 0), i.value ->> 3
from json_each(?1) i
