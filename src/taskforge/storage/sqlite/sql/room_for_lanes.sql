-- How many more lanes a project may have, and how many at all. ?1 project · ?2 as many as any
with allowed (most) as (select coalesce((select most_lanes from projects where number = ?1), ?2))
select max(0, most - (select count(*) from (select 1 from lanes where project = ?1 limit (select most from allowed)))), most
from allowed
