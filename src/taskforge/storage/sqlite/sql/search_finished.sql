-- A stretch of the finished jobs of a queue, newest first, and which of them match.
-- ?1 queue · ?2 older than · ?3 rows · ?4 from this id on · ?5 types and ?6 priorities, as JSON lists,
-- or null · ?7 statuses
select f.job, f.status in (select value from json_each(?7)) and ((?5 is null and ?6 is null) or (
    select (?5 is null or j.job_type in (select value from json_each(?5))) and (?6 is null or j.priority in (select value from json_each(?6)))
    from jobs j where j.id = f.job))
from finished f indexed by sqlite_autoindex_finished_1 where f.queue = ?1 and f.job >= ?4 and f.job < ?2
order by f.job desc limit ?3
