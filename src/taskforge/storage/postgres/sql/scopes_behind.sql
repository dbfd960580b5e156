-- Scopes in the order of their numbers, so that pruning walks over all of them slice by slice. $1 the last one · $2 limit
select number, queue <> 0 and worker <> '00000000-0000-0000-0000-000000000000' as is_pair
from taskforge.rollup_scopes where number > $1 order by number limit $2
