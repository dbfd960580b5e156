-- What a claim of several lanes chooses from: the first jobs of each, and how far the order over all
-- of them is known. The values are those of claim_lanes.sql.
-- Where $10 cuts a lane off short of what could be taken from it, only what sorts before the cut is
-- taken: the order stays exact without reading $4 rows of every lane. A claim of 100 jobs or more
-- is exact by tier alone: its jobs start together, and the oldest of those that a cut left behind
-- are first in the next claim, which reads more of their lane.
candidate as materialized (
    select l.number, l.key, l.tier, l.most, l.gate, l.cap, r.place, r.turn
    from lane l cross join lateral (
        select ready.ctid as place, ready.turn
        from taskforge.ready
        where ready.project = $19 and ready.lane = l.number and ready.key is null and ready.turn > l.bound and (ready.skipped is null or not ready.skipped && array[$5, $1])
          and (ready.until is null or ready.until > (select now from clock))
        order by ready.turn limit least(l.most, l.cap)
        for update skip locked
    ) r
),
-- A limited queue gives as many as its limit lets through; the lanes that were cut off by that are
-- read far enough.
allowed as materialized (
    select number, tier, most, cap, place, turn from candidate where cap is null
    union all
    select number, tier, most, cap, place, turn
    from (select c.*, row_number() over (partition by gate order by tier, turn) as position from candidate c where cap is not null) c
    where position <= cap
),
horizon as materialized (
    select tier, case when $4 < 100 then max(turn) end as turn from allowed group by number, tier, most, cap
    having count(*) >= most and most < least($4, cap) order by 1, 2 limit 1
),
