-- A piece of a lane in order. ?1 lane · ?2 turn and ?3 fence to go on behind · ?4 the worker's id
-- and ?7 its incarnation in hexadecimal · ?5 limit · ?6 now · ?8 project · ?9 key
select turn, fence from ready
where project = ?8 and lane = ?1 and key = ?9 and (turn, fence) > (?2, ?3) and (skipped is null or (instr(skipped, ?4) = 0 and instr(skipped, ?7) = 0)) and (until is null or until > ?6)
order by turn, fence limit ?5
