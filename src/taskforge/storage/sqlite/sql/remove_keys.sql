-- ?1 job ids, one behind the other · ?2 a list as long · ?3 now: idempotency keys stay for their
-- time (null: all go)
delete from keys where job in (select substr(?1, i.key * 16 + 1, 16) from json_each(?2) i) and (?3 is null or scope = 0 or until <= ?3)
