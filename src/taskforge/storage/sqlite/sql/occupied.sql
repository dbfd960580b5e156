-- The lanes of a project that hold jobs, each with the turn of its first: from one lane to the next
-- in the tree, past all that stands between. 0.03 ms for 3 lanes, 1.5 ms for 1,000. ?1 project · ?2
-- behind this lane · ?3 most
with recursive held (number) as (
    select (select r.lane from ready r where r.project = ?1 and r.lane > ?2 order by r.lane limit 1)
    union all
    select (select r.lane from ready r where r.project = ?1 and r.lane > number order by r.lane limit 1) from held where number is not null
)
select number, (select r.turn from ready r where r.project = ?1 and r.lane = number order by r.turn limit 1)
from held where number is not null limit ?3
