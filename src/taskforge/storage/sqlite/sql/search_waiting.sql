-- A stretch of all jobs that wait for their time, newest first, and which of them match.
-- ?1 projects · ?2 older than · ?3 rows · ?4 from this id on · ?5 types, ?6 priorities and ?7 queues,
-- as JSON lists, or null · ?8 due from and ?9 due before, or null
select r.fence, r.project in (select value from json_each(?1)) and ((?5 is null and ?6 is null and ?7 is null) or (
    select (?5 is null or l.job_type in (select value from json_each(?5))) and (?6 is null or l.priority in (select value from json_each(?6)))
        and (?7 is null or l.queue in (select value from json_each(?7)))
    from lanes l where l.number = r.lane))
    and (?8 is null or r.due >= ?8) and (?9 is null or r.due < ?9)
from waiting r not indexed where r.fence >= ?4 and r.fence < ?2
order by r.fence desc limit ?3
