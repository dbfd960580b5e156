-- How many jobs go before one: all of some lanes, and of others those with an earlier turn. No more
-- than so many are counted. Of jobs with a fairness key all of the lane are looked at.
-- ?1 lanes that go first · ?2 lanes where the turn decides · ?3 its turn and ?4 fence · ?5 now · ?6
-- most · ?7 project
select
    (select count(*) from (
        select 1 from json_each(?1) i cross join ready r on r.project = ?7 and r.lane = i.value and (r.until is null or r.until > ?5) limit ?6))
    + (select count(*) from (
        select 1 from json_each(?2) i cross join ready r on r.project = ?7 and r.lane = i.value and r.key = 0
        where (r.turn, r.fence) < (?3, ?4) and (r.until is null or r.until > ?5) limit ?6))
    + (select count(*) from (
        select 1 from json_each(?2) i cross join ready r on r.project = ?7 and r.lane = i.value and r.key > 0
        where (r.turn, r.fence) < (?3, ?4) and (r.until is null or r.until > ?5) limit ?6))
