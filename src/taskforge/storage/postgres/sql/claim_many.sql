-- Claim from several lanes: take up to $4 jobs by tier and turn over all of them, and put them in
-- running. The values are those of claim_lanes.sql.
-- include: claim_lanes
-- include: claim_candidates
chosen as (
    -- The first condition spares the horizon where it would cut nothing.
    select c.place from allowed c
    where (select $4 >= 100 and min(tier) = max(tier) from lane)
       or not exists (select from horizon)
       or (c.tier, c.turn) <= ((select tier from horizon), coalesce((select turn from horizon), c.turn))
    order by c.tier, c.turn limit $4
),
-- include: claim_moves
