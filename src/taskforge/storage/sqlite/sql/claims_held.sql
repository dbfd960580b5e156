-- Of these fences those that are in running, with what every transition needs. ?1 fences, one behind the other · ?2 a list as long
select r.fence, r.lane, r.worker, r.turn, r.claimed_at, r.started_at, r.cancel_requested, r.keyed
from json_each(?2) i cross join running r on r.fence = substr(?1, i.key * 16 + 1, 16)
