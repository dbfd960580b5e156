-- The lanes of a project that hold jobs, and which of them match.
-- ?1 project · ?2 most lanes · ?3 types, ?4 priorities and ?5 queues, as JSON lists,
-- or null
with recursive held (lane) as (
    select (select r.lane from ready r where r.project = ?1 order by r.lane limit 1)
    union all
    select (select r.lane from ready r where r.project = ?1 and r.lane > h.lane order by r.lane limit 1) from held h where h.lane is not null
)
select r.lane, ((?3 is null and ?4 is null and ?5 is null) or (
    select (?3 is null or l.job_type in (select value from json_each(?3))) and (?4 is null or l.priority in (select value from json_each(?4)))
        and (?5 is null or l.queue in (select value from json_each(?5)))
    from lanes l where l.number = r.lane))
from held r where r.lane is not null limit ?2
