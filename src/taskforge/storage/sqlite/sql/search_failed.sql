-- A stretch of the finished jobs of a group of failures, newest first, and which of them match.
-- ?1 project · ?2 older than · ?3 rows · ?4 from this id on · ?5 types, ?6 priorities, ?7 queues and ?8
-- statuses, as JSON lists, or null · ?9 due from and ?10 due before, or null · ?11 group
select f.job, (?8 is null or f.status in (select value from json_each(?8))) and (?7 is null or f.queue in (select value from json_each(?7)))
    and ?9 is null and ?10 is null
    and ((?5 is null and ?6 is null) or (
        select (?5 is null or j.job_type in (select value from json_each(?5))) and (?6 is null or j.priority in (select value from json_each(?6)))
        from jobs j where j.id = f.job))
from finished f indexed by finished_failure where f.project = ?1 and f.failure = ?11 and f.job >= ?4 and f.job < ?2
order by f.job desc limit ?3
