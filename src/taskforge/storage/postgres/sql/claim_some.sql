-- Claim from some of the lanes that the worker may take: as claim_many.sql, and nothing that the best
-- of the others may go before. The values are those of claim_lanes.sql, and $20 tier and $21 turn of
-- that one; null: by tier alone.
-- Behind the jobs that it took, one row for each lane that it asked, without a fence: the turn of the
-- first job that it left there, as far as it looked; none where it saw the lane's end.
-- include: claim_lanes
-- include: claim_candidates
chosen as (
    select c.place from allowed c
    where (c.tier < $20 or (c.tier = $20 and ($21::bigint is null or c.turn <= $21)))
      and ((select $4 >= 100 and min(tier) = max(tier) from lane)
        or not exists (select from horizon)
        or (c.tier, c.turn) <= ((select tier from horizon), coalesce((select turn from horizon), c.turn)))
    order by c.tier, c.turn limit $4
),
-- include: claim_moves
union all
select null, l.number, null, null, null, null, null, null, null, null,
    coalesce(min(c.turn) filter (where c.turn > coalesce(m.turn, 0)), case when count(c.turn) >= l.most then max(c.turn) end),
    null, null, null
from lane l
left join candidate c on c.number = l.number
left join (select lane, max(turn) as turn from moved group by lane) m on m.lane = l.number
group by l.number, l.most, m.turn
