-- The leader is still there. ?1 term · ?2 its node
update leadership set beat = beat + 1 where one = 1 and term = ?1 and node = ?2
