-- ?1 job ids, one behind the other · ?2 a list as long
delete from logs where job in (select substr(?1, i.key * 16 + 1, 16) from json_each(?2) i)
