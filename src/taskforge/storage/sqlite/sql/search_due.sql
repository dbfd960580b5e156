-- Waiting jobs that are due in a range, and which of them match.
-- ?1 projects · ?2 due from and ?3 due before · ?4 most · ?5 types, ?6 priorities and ?7 queues, as JSON
-- lists, or null
select r.fence, r.project in (select value from json_each(?1)) and ((?5 is null and ?6 is null and ?7 is null) or (
    select (?5 is null or l.job_type in (select value from json_each(?5))) and (?6 is null or l.priority in (select value from json_each(?6)))
        and (?7 is null or l.queue in (select value from json_each(?7)))
    from lanes l where l.number = r.lane))
from waiting r indexed by waiting_due where r.due >= ?2 and r.due < ?3
order by r.due limit ?4
