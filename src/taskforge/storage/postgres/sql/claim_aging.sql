-- Claim where jobs rise as they wait (`age_boost`) or are held back while the project is loaded
-- (`priority_pacing`), and keys may take turns, too: as claim_keys.sql, with a tier for each job and
-- a last turn for each lane. The values are those of claim_lanes.sql, $22 to $24 those of
-- claim_keys.sql, and for each lane $25 after how many microseconds its jobs rise by a step, null:
-- never · $26 for how many they are held back, null: they are not. A lane's tier ends in how many steps
-- its jobs may rise.
-- Behind the jobs that it took it says what is left, as claim_left.sql does, and where it saw the end
-- of what it may take, the first of what it may not: jobs that are held back, or that this worker
-- skipped.
-- include: claim_lanes
moment as materialized (
    select (date_part('epoch', now) * 1e6::float8)::bigint as now from clock
),
lane_as_of as materialized (
    select l.*, x.rounds, x.boost, (select now from moment) - x.pace as held
    from lane l join unnest($7::int[], $20::bigint[], $24::bool[], $25::bigint[], $26::bigint[]) as x (number, key, rounds, boost, pace)
        on x.number = l.number and coalesce(x.key, 0) = coalesce(l.key, 0)
),
keyless as materialized (
    select l.number, l.key, l.rounds, l.most, l.gate, l.cap, r.place, r.turn,
        case when l.boost is null then l.tier
            else l.tier - least(l.tier % 10, greatest(0, ((select now from moment) - r.turn) / l.boost))::int end as tier
    from lane_as_of l cross join lateral (
        select ready.ctid as place, ready.turn
        from taskforge.ready
        where ready.project = $19 and ready.lane = l.number and ready.key is null and ready.turn > l.bound
          and ready.turn <= coalesce(l.held, 9223372036854775807)
          and (ready.skipped is null or not ready.skipped && array[$5, $1])
          and (ready.until is null or ready.until > (select now from clock))
        order by ready.turn limit least(l.most, l.cap)
        for update skip locked
    ) r
    where l.key is null
),
keyed as materialized (
    select l.number, l.key, l.rounds, l.most, l.gate, l.cap, r.place, r.turn, l.tier
    from lane_as_of l cross join lateral (
        select ready.ctid as place, ready.turn
        from taskforge.ready
        where ready.project = $19 and ready.lane = l.number and ready.key = l.key and ready.key is not null and ready.turn > l.bound
          and ready.turn <= coalesce(l.held, 9223372036854775807)
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
-- Where a lane is cut off its last job has risen least.
horizon as materialized (
    select max(tier) as tier, case when $4 < 100 then max(turn) end as turn from allowed where not rounds group by number, most, cap
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
union all
select null, l.number, null, null, null, null, null, null, null, null,
    coalesce(min(c.turn) filter (where c.turn > coalesce(m.turn, 0)), case when count(c.turn) >= l.most then max(c.turn) end,
        case when l.key is null then (
                select r.turn from taskforge.ready r
                where r.project = $19 and r.lane = l.number and r.key is null and (r.turn > coalesce(m.turn, 0) or r.skipped is not null)
                order by r.turn limit 1)
            else (
                select r.turn from taskforge.ready r
                where r.project = $19 and r.lane = l.number and r.key = l.key and r.key is not null and (r.turn > coalesce(m.turn, 0) or r.skipped is not null)
                order by r.turn limit 1) end),
    null, null, null, l.key
from lane_as_of l
left join candidate c on c.number = l.number and coalesce(c.key, 0) = coalesce(l.key, 0)
left join (select lane, key, max(turn) as turn from moved group by lane, key) m
    on m.lane = l.number and coalesce(m.key, 0) = coalesce(l.key, 0)
group by l.number, l.key, l.most, m.turn
