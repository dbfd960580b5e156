-- What is placed on these workers is placed on nobody again. $1 project · $2 lanes · $3 what stands for
-- the worker, for each
update taskforge.ready r set key = null
from unnest($2::int[], $3::bigint[]) as x (lane, key)
where r.project = $1 and r.lane = x.lane and r.key = x.key
