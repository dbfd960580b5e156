-- Doubt the lanes of a stretch that were kept long ago and hold nothing that is ready; returns where
-- the stretch ended, null at the end of all. $1 behind this number · $2 how many · $3 for how many
-- seconds a lane is kept · $4 now (tests)
with clock as materialized (
    select coalesce($4::timestamptz, statement_timestamp()) as now
), walked as materialized (
    select number, project, kept_at, doubted_at from taskforge.lanes where number > $1 order by number limit $2
), idle as materialized (
    select w.number from walked w cross join clock c
    where w.doubted_at is null and w.kept_at < c.now - make_interval(secs => $3)
      and not coalesce((select true from taskforge.ready r where r.project = w.project and r.lane = w.number and r.key is null limit 1), false)
      and not coalesce((select true from taskforge.ready r where r.project = w.project and r.lane = w.number and r.key is not null limit 1), false)
), doubted as (
    update taskforge.lanes set doubted_at = (select now from clock)
    where number = any (array(select number from idle)) and doubted_at is null
    returning number
)
select max(number) as stopped, count(*)::int as walked, (select count(*)::int from doubted) as doubted from walked
