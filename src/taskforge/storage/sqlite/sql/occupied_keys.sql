-- The fairness keys of a lane that hold jobs, each with the turn of its first: from one to the next,
-- as occupied.sql goes from lane to lane. ?1 project · ?2 lane · ?3 behind this key · ?4 most
with recursive held (key) as (
    select (select r.key from ready r where r.project = ?1 and r.lane = ?2 and r.key > ?3 order by r.key limit 1)
    union all
    select (select r.key from ready r where r.project = ?1 and r.lane = ?2 and r.key > held.key order by r.key limit 1) from held where key is not null
)
select key, (select r.turn from ready r where r.project = ?1 and r.lane = ?2 and r.key = held.key order by r.turn limit 1)
from held where key is not null limit ?4
