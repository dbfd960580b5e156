-- How many more lanes a project may have, and how many at all. $1 project · $2 as many as any
select greatest(0, m.most - (select count(*) from (select from taskforge.lanes l where l.project = $1 limit m.most) x)) as room, m.most
from (select coalesce((select most_lanes from taskforge.projects where number = $1), $2::int) as most) m
