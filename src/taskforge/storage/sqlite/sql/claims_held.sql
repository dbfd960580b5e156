-- Of these fences those that are in running, with what every transition needs, all in one row: a
-- list of numbers that begin with the fence's place among those given, and the incarnations one
-- behind the other in hexadecimal. ?1 fences, one behind the other · ?2 a list as long
select json_group_array(json_array(i.key, r.lane, r.turn, r.claimed_at, r.started_at, r.cancel_requested, r.keyed)),
    group_concat(hex(r.worker), '')
from json_each(?2) i cross join running r on r.fence = substr(?1, i.key * 16 + 1, 16)
