-- The lanes of a project that hold jobs, each with the turn of the first that has no fairness key
-- (null: all have one), and behind them, with true, those that hold jobs with a key: from one lane to
-- the next in the tree, past all that stands between. 0.03 ms for 3 lanes, 1.5 ms for 1,000.
-- ?1 project · ?2 behind this lane; null: none of the former · ?3 most of them · ?4 from this lane on,
-- of the latter
with recursive held (number) as (
    select (select r.lane from ready r where r.project = ?1 and r.lane > ?2 order by r.lane limit 1)
    union all
    select (select r.lane from ready r where r.project = ?1 and r.lane > number order by r.lane limit 1) from held where number is not null
),
keyed (number) as (
    select (select r.lane from ready r where r.project = ?1 and r.lane >= ?4 and r.key > 0 order by r.lane limit 1)
    union all
    select (select r.lane from ready r where r.project = ?1 and r.lane > number and r.key > 0 order by r.lane limit 1) from keyed where number is not null
)
select * from (
    select number, (select r.turn from ready r where r.project = ?1 and r.lane = number and r.key = 0 order by r.turn limit 1), 0
    from held where number is not null limit ?3
)
union all
select number, null, 1 from keyed where number is not null
