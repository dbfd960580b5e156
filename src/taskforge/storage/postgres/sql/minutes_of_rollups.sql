-- The cells of these minutes. $1 scopes · $2 minutes
select r.scope, r.start, r.cell
from unnest($1::int[], $2::int[]) as a (scope, start)
join taskforge.rollups r on r.scope = a.scope and r.step = 0 and r.start = a.start
