-- Jobs as readers see them, in the order asked. ?1 ids, one behind the other · ?2 a list as long
select n.* from json_each(?2) i cross join jobs_now n on n.id = substr(?1, i.key * 16 + 1, 16) where n.status is not null
