-- Remove those of these lanes that are still doubted and hold nothing; the others are kept. One
-- snapshot for all places, so that a job that moves meanwhile is in one of them. Whoever has looked
-- for a lane since took the doubt from it, and holds its row or has committed: it stays. Figures that
-- are not folded yet count, too: they are told by its queue and type. $1 numbers · $2 for how many
-- seconds they were doubted at least · $3 now (tests)
with clock as materialized (
    select coalesce($3::timestamptz, statement_timestamp()) as now
), given as materialized (
    select l.number, l.project from unnest($1::int[]) as n (number)
    cross join lateral (select number, project from taskforge.lanes where lanes.number = n.number limit 1) l
), held as materialized (
    select g.number from given g where coalesce(
        (select true from taskforge.ready r where r.project = g.project and r.lane = g.number and r.key is null limit 1),
        (select true from taskforge.ready r where r.project = g.project and r.lane = g.number and r.key is not null limit 1))
    union select lane from taskforge.waiting where lane = any ($1::int[])
    union select lane from taskforge.running where lane = any ($1::int[])
    union select lane from taskforge.rollup_deltas where lane = any ($1::int[])
    union select lane from taskforge.circuit_deltas where lane = any ($1::int[])
), kept as (
    update taskforge.lanes set doubted_at = null, kept_at = (select now from clock)
    where number = any (array(select number from held)) and doubted_at is not null
), gone as (
    delete from taskforge.lanes l using given g
    where l.number = g.number and l.number <> all (array(select number from held))
      and l.doubted_at < (select now from clock) - make_interval(secs => $2)
    returning l.number
)
select count(*)::int from gone
