-- Of these fences those whose claim is over by the store's clock. ?1 fences, one behind the other ·
-- ?2 a list as long · ?3 now · ?4 the same by the clock that leases go by
select r.fence
from json_each(?2) i cross join running r on r.fence = substr(?1, i.key * 16 + 1, 16)
where r.timeout_at <= ?3 or r.beat_by <= ?3 or r.deadline <= ?3
   or not exists (select 1 from workers w where w.incarnation = r.worker and w.lease_until > ?4)
