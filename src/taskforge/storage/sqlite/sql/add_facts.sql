-- The facts of new jobs that differ in their payloads only. ?1 payloads · ?2 ids, one behind the
-- other · ?3 project · ?4 queue · ?5 type ·
-- ?6 priority · ?7 max attempts · ?8 requires
insert into jobs (id, project, queue, job_type, priority, max_attempts, requires, payload)
select substr(?2, i.key * 16 + 1, 16), ?3, ?4, ?5, ?6, ?7, ?8, i.value
from json_each(?1) i
