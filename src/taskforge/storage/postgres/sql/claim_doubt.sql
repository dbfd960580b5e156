-- Why a claim took nothing: the version of its project's catalog, whether its lease stands, and a
-- survey of the lanes that hold jobs, as in occupied.sql. $1 incarnation · $2 now (tests) · $3
-- project · $4 whether to survey · $5 behind this lane · $6 and $7 behind this lane and key · $8 most
with recursive lane as (
    (select r.lane, r.turn from taskforge.ready r where $4 and r.project = $3 and r.lane > $5 and r.key is null order by r.lane, r.turn limit 1)
    union all
    select n.lane, n.turn from lane l cross join lateral (
        select r.lane, r.turn from taskforge.ready r where r.project = $3 and r.lane > l.lane and r.key is null order by r.lane, r.turn limit 1
    ) n
),
keyed as (
    (select r.lane, r.key, r.turn from taskforge.ready r
        where $4 and r.project = $3 and (r.lane, r.key) > ($6::int, $7::bigint) and r.key is not null order by r.lane, r.key, r.turn limit 1)
    union all
    select n.lane, n.key, n.turn from keyed k cross join lateral (
        select r.lane, r.key, r.turn from taskforge.ready r
        where r.project = $3 and (r.lane, r.key) > (k.lane, k.key) and r.key is not null order by r.lane, r.key, r.turn limit 1
    ) n
)
select (select catalog_version from taskforge.projects where number = $3) as version,
    exists (
        select from taskforge.workers
        where incarnation = $1 and lease_until > coalesce($2::timestamptz, statement_timestamp())
    ) as alive,
    o.lanes, o.keys, o.turns
from (
    select array_agg(lane) as lanes, array_agg(key) as keys, array_agg(turn) as turns from (
        select lane, null::bigint as key, turn from lane union all select lane, key, turn from keyed limit $8
    ) l
) o
