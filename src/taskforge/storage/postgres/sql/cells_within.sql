-- The cells that make up hours or days. $1 scopes · $2 starts of these · $3 the finer step · $4 minutes of one
select r.scope, a.start, r.cell
from unnest($1::int[], $2::int[]) as a (scope, start)
join taskforge.rollups r on r.scope = a.scope and r.step = $3 and r.start >= a.start and r.start < a.start + $4
