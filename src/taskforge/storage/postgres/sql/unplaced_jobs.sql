-- The first jobs of these lanes that are placed on nobody. $1 project · $2 lanes · $3 most of each ·
-- $4 whether it matters what they stay with
select r.fence, l.lane, r.turn, r.skipped, case when $4 then (select j.fairness_key from taskforge.jobs j where j.id = r.job) end as stays_with
from unnest($2::int[]) as l (lane) cross join lateral (
    select ready.fence, ready.job, ready.turn, ready.skipped from taskforge.ready
    where ready.project = $1 and ready.lane = l.lane and ready.key is null
    order by ready.turn limit $3
) r
