-- Which of these ids are stored. ?1 ids, one behind the other · ?2 a list as long
select j.id from json_each(?2) i cross join jobs j on j.id = substr(?1, i.key * 16 + 1, 16)
