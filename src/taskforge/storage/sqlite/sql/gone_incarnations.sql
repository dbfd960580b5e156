-- Of these ids those of incarnations whose lease is over. ?1 ids, one behind the other · ?2 a list
-- as long · ?3 now, by the clock that leases go by
select w.incarnation
from json_each(?2) i cross join workers w on w.incarnation = substr(?1, i.key * 16 + 1, 16)
where w.lease_until <= ?3
