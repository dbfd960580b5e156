-- ?1 job ids, one behind the other · ?2 a list as long · ?3 queue
delete from finished where queue = ?3 and job in (select substr(?1, i.key * 16 + 1, 16) from json_each(?2) i)
