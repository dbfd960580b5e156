-- The first jobs of a lane that are placed on nobody. ?1 project · ?2 lane · ?3 most · ?4 whether it
-- matters what they stay with
select r.fence, r.turn, r.skipped, case when ?4 then (select j.fairness_key from jobs j where j.id = r.job) end
from ready r where r.project = ?1 and r.lane = ?2 and r.key = 0
order by r.turn, r.fence limit ?3
