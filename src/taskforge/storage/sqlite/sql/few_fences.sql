-- The first jobs of each of many spots, as their keys take turns: fences in hexadecimal, one behind the
-- other. ?1 for each spot [lane, key] · ?2 the worker's id and ?3 its incarnation in hexadecimal ·
-- ?4 now · ?5 project · ?6 how many of each
select (
    select group_concat(hex(fence), '') from (
        select r.fence from ready r
        where r.project = ?5 and r.lane = i.value ->> 0 and r.key = i.value ->> 1 and (r.skipped is null or (instr(r.skipped, ?2) = 0 and instr(r.skipped, ?3) = 0)) and (r.until is null or r.until > ?4)
        order by r.turn, r.fence limit ?6
    )
)
from json_each(?1) i
