-- The same as heads.sql for spots: lanes, or what they hold of one fairness key. Those that hold something this worker may take, and the turn of the first: what stands before
-- it has expired or was skipped, and is not looked at again. `limit -1` keeps SQLite from merging
-- the two selects, which would look at each lane twice.
-- ?5 project · ?1 for each [lane number, key] · ?2 the worker's id and ?4 its incarnation in hexadecimal · ?3 now
select key, turn from (
    select i.key, (
        select r.turn from ready r
        where r.project = ?5 and r.lane = i.value ->> 0 and r.key = i.value ->> 1 and (r.skipped is null or (instr(r.skipped, ?2) = 0 and instr(r.skipped, ?4) = 0)) and (r.until is null or r.until > ?3)
        order by r.turn limit 1
    ) as turn
    from json_each(?1) i limit -1
)
where turn is not null
