-- A stretch of the jobs with a tag, newest first, and which of them match. Where a job stands is
-- looked up only if the filter asks for it.
-- ?1 project · ?2 older than · ?3 rows · ?4 from this id on · ?5 types, ?6 priorities, ?7 queues and ?8
-- statuses, as JSON lists, or null · ?9 due from and ?10 due before, or null · ?11 tag
select t.job, ((?5 is null and ?6 is null and ?7 is null) or (
    select (?5 is null or j.job_type in (select value from json_each(?5))) and (?6 is null or j.priority in (select value from json_each(?6)))
        and (?7 is null or j.queue in (select value from json_each(?7)))
    from jobs j where j.id = t.job))
    and (?8 is null or (
        select j.status in (select value from json_each(?8)) and (?9 is null or j.due >= ?9) and (?10 is null or j.due < ?10)
        from jobs_now j where j.id = t.job))
from job_tags t where t.project = ?1 and t.tag = ?11 and t.job >= ?4 and t.job < ?2
order by t.job desc limit ?3
