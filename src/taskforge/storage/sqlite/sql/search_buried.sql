-- A stretch of the dead letters of a group of failures, newest first, and which of them match: those
-- that have not ended since.
-- ?1 project · ?2 older than · ?3 rows · ?4 from this id on · ?5 types, ?6 priorities, ?7 queues and ?8
-- statuses, as JSON lists, or null · ?9 due from and ?10 due before, or null · ?11 group
select b.id, (?5 is null or b.job_type in (select value from json_each(?5))) and (?6 is null or b.priority in (select value from json_each(?6)))
    and (?7 is null or b.queue in (select value from json_each(?7)))
    and (select j.status in (0, 1, 2) and (?8 is null or j.status in (select value from json_each(?8)))
            and (?9 is null or j.due >= ?9) and (?10 is null or j.due < ?10)
        from jobs_now j where j.id = b.id)
from jobs b indexed by jobs_buried where b.project = ?1 and b.buried_failure = ?11 and b.id >= ?4 and b.id < ?2
order by b.id desc limit ?3
