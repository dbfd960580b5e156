-- Claim where keys take turns: of each spot the first so many jobs ($10), which is what its rounds
-- give it; of other lanes as claim_some.sql does, by tier and turn over all of them. The values are
-- those of claim_lanes.sql, and $22 tier and $23 turn of the best spot that is not asked (null: none
-- is left out, or by tier alone) · $24 for each lane whether its rounds say how many.
-- Behind the jobs that it took it says what is left: claim_left.sql.
-- include: claim_lanes
lane_in_rounds as materialized (
    select l.*, x.rounds from lane l join unnest($7::int[], $20::bigint[], $24::bool[]) as x (number, key, rounds)
        on x.number = l.number and coalesce(x.key, 0) = coalesce(l.key, 0)
),
keyless as materialized (
    select l.number, l.key, l.rounds, l.tier, l.most, l.gate, l.cap, r.place, r.turn
    from lane_in_rounds l cross join lateral (
        select ready.ctid as place, ready.turn
        from taskforge.ready
        where ready.project = $19 and ready.lane = l.number and ready.key is null and ready.turn > l.bound and (ready.skipped is null or not ready.skipped && array[$5, $1])
          and (ready.until is null or ready.until > (select now from clock))
        order by ready.turn limit least(l.most, l.cap)
        for update skip locked
    ) r
    where l.key is null
),
keyed as materialized (
    select l.number, l.key, l.rounds, l.tier, l.most, l.gate, l.cap, r.place, r.turn
    from lane_in_rounds l cross join lateral (
        select ready.ctid as place, ready.turn
        from taskforge.ready
        where ready.project = $19 and ready.lane = l.number and ready.key = l.key and ready.key is not null and ready.turn > l.bound
          and (ready.skipped is null or not ready.skipped && array[$5, $1])
          and (ready.until is null or ready.until > (select now from clock))
        order by ready.turn limit least(l.most, l.cap)
        for update skip locked
    ) r
    where l.key is not null
),
candidate as materialized (
    select * from keyless union all select * from keyed
),
-- A limited queue gives as many as its limit lets through.
allowed as materialized (
    select number, rounds, tier, most, cap, place, turn from candidate where cap is null
    union all
    select number, rounds, tier, most, cap, place, turn
    from (select c.*, row_number() over (partition by gate order by tier, turn) as position from candidate c where cap is not null) c
    where position <= cap
),
horizon as materialized (
    select tier, case when $4 < 100 then max(turn) end as turn from allowed where not rounds group by number, tier, most, cap
    having count(*) >= most and most < least($4, cap) order by 1, 2 limit 1
),
chosen as (
    select c.place from allowed c
    where ($22::int is null or c.tier < $22 or (c.tier = $22 and ($23::bigint is null or c.turn <= $23)))
      and (not exists (select from horizon)
        or (c.tier, c.turn) <= ((select tier from horizon), coalesce((select turn from horizon), c.turn)))
    order by c.tier, c.turn limit $4
),
-- include: claim_moves
-- include: claim_left
