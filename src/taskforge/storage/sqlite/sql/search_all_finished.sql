-- A stretch of all jobs, newest first, and which of them are finished and match, for projects of more
-- queues than are walked one by one.
-- ?1 projects · ?2 older than · ?3 rows · ?4 from this id on · ?5 types, ?6 priorities and ?7 queues,
-- as JSON lists, or null · ?8 statuses
select j.id, j.project in (select value from json_each(?1)) and (?5 is null or j.job_type in (select value from json_each(?5))) and (?6 is null or j.priority in (select value from json_each(?6)))
    and (?7 is null or j.queue in (select value from json_each(?7)))
    and (select f.status in (select value from json_each(?8)) from finished f where f.queue = j.queue and f.job = j.id)
from jobs j indexed by sqlite_autoindex_jobs_1 where j.id >= ?4 and j.id < ?2
order by j.id desc limit ?3
