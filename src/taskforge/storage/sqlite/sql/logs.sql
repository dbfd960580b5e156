-- Log lines of a job, oldest first. ?1 job · ?2 projects · ?3 least level · ?4 behind this number · ?5 limit · ?6 offset
select number, epoch, level, message, metadata, logged_at
from logs
where job = ?1 and number > ?4 and level >= ?3 and project in (select value from json_each(?2))
order by epoch, number limit ?5 offset ?6
