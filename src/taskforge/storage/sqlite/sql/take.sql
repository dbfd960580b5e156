-- The first jobs of a lane with what their handlers need. ?1 lane · ?2 the worker's id and ?6 its
-- incarnation in hexadecimal · ?3 limit ·
-- ?4 now · ?5 turn of the first · ?7 project · ?8 key
-- A job whose facts were lost must still be able to move, hence the outer join.
select r.fence, r.turn, r.attempt, r.max_attempts, r.crashes, j.timeout_seconds, j.deadline, j.tags, j.extras, j.payload
from ready r left join jobs j on j.id = r.job
where r.project = ?7 and r.lane = ?1 and r.key = ?8 and r.turn >= ?5 and (r.skipped is null or (instr(r.skipped, ?2) = 0 and instr(r.skipped, ?6) = 0)) and (r.until is null or r.until > ?4)
order by r.turn, r.fence limit ?3
