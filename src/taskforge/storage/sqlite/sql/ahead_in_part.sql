-- How many jobs of some lanes became ready up to some turn of each, and so go before one. No more than
-- so many are counted. ?1 for each [lane, turn] · ?2 now · ?3 most · ?4 project
select count(*) from (
    select 1 from json_each(?1) i cross join ready r on r.project = ?4 and r.lane = i.value ->> 0
    where r.key = 0 and r.turn <= i.value ->> 1 and (r.until is null or r.until > ?2)
    union all
    select 1 from json_each(?1) i cross join ready r on r.project = ?4 and r.lane = i.value ->> 0
    where r.key > 0 and r.turn <= i.value ->> 1 and (r.until is null or r.until > ?2)
    limit ?3
)
