-- Claim from some of the lanes that the worker may take: as claim_many.sql, and nothing that the best
-- of the others may go before. The values are those of claim_lanes.sql, and $22 tier and $23 turn of
-- that one; null: by tier alone.
-- Behind the jobs that it took it says what is left: claim_left.sql.
-- include: claim_lanes
-- include: claim_candidates
chosen as (
    select c.place from allowed c
    where (c.tier < $22 or (c.tier = $22 and ($23::bigint is null or c.turn <= $23)))
      and ((select $4 >= 100 and min(tier) = max(tier) from lane)
        or not exists (select from horizon)
        or (c.tier, c.turn) <= ((select tier from horizon), coalesce((select turn from horizon), c.turn)))
    order by c.tier, c.turn limit $4
),
-- include: claim_moves
-- include: claim_left
