-- Claim, third step: remove from ready what is now in running. ?1 lane · ?2 turn and ?3 fence of
-- the last · ?4 the worker's id in hexadecimal ·
-- ?5 now · ?6 turn of the first · ?7 incarnation in hexadecimal · ?8 project · ?9 key
delete from ready
where project = ?8 and lane = ?1 and key = ?9 and turn >= ?6 and (turn, fence) <= (?2, ?3) and (skipped is null or (instr(skipped, ?4) = 0 and instr(skipped, ?7) = 0)) and (until is null or until > ?5)
