-- Place jobs on workers that are placed on nobody. $1 fences · $2 what stands for the worker of each
update taskforge.ready r set key = x.key
from unnest($1::uuid[], $2::bigint[]) as x (fence, key)
where r.fence = x.fence and r.key is null
returning r.project, r.lane, r.key, r.turn
