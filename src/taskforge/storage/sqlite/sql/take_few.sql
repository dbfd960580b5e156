-- The jobs that `few_fences` found, with what their handlers need: as `take` for a lane.
-- ?1 fences, one behind the other · ?2 a list as long
select r.fence, r.turn, r.attempt, r.max_attempts, r.crashes, j.timeout_seconds, j.deadline, j.tags, j.extras, j.payload, r.lane, r.key
from json_each(?2) i cross join ready r on r.fence = substr(?1, i.key * 16 + 1, 16) left join jobs j on j.id = r.job
