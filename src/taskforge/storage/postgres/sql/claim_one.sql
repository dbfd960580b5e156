-- Claim from one lane: take its first jobs, up to $4, and put them in running. No merging, no
-- sorting, no window: a microsecond less for each job. The values are those of claim_lanes.sql.
-- include: claim_lanes
chosen as (
    select r.place
    from lane l cross join lateral (
        select ready.ctid as place
        from taskforge.ready
        where ready.project = $19 and ready.lane = l.number and ready.key is null and ready.turn > l.bound and (ready.skipped is null or not ready.skipped && array[$5, $1])
          and (ready.until is null or ready.until > (select now from clock))
        order by ready.turn limit least($4, l.most, l.cap)
        for update skip locked
    ) r
),
-- include: claim_moves
