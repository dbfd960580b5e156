-- A stretch of the jobs of a queue, newest first, and which of them match.
-- ?1 queue · ?2 older than · ?3 rows · ?4 from this id on · ?5 types and ?6 priorities, as JSON lists,
-- or null
select j.id, (?5 is null or j.job_type in (select value from json_each(?5))) and (?6 is null or j.priority in (select value from json_each(?6)))
from jobs j indexed by jobs_queue where j.queue = ?1 and j.id >= ?4 and j.id < ?2
order by j.id desc limit ?3
