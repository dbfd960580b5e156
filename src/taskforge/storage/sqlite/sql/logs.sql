-- Log lines of a job, oldest first. ?1 job · ?2 projects · ?3 least level · ?4 behind this epoch
-- and ?5 number · ?6 last epoch · ?7 limit
select epoch, number, level, message, metadata, logged_at
from logs
where job = ?1 and (epoch, number) > (?4, ?5) and epoch <= ?6 and level >= ?3 and project in (select value from json_each(?2))
order by epoch, number limit ?7
