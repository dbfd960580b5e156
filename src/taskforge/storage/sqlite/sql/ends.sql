-- Executions of a job that ended, oldest first, without what they returned. ?1 job · ?2 projects ·
-- ?3 first and ?4 last epoch · ?5 statuses ·
-- ?6 limit
select e.epoch, e.attempt, e.status, e.claimed_at, e.started_at, e.finished_at, e.error, e.reason
from executions e
where e.job = ?1 and e.project in (select value from json_each(?2)) and e.epoch between ?3 and ?4
  and e.status in (select value from json_each(?5))
union all
select f.epoch, f.attempt, f.status, f.claimed_at, f.started_at, f.finished_at, f.error, f.reason
from jobs j join finished f on f.queue = j.queue and f.job = j.id
where j.id = ?1 and j.project in (select value from json_each(?2)) and f.epoch > 0 and f.epoch between ?3 and ?4
  and f.status in (select value from json_each(?5))
order by 1 limit ?6
