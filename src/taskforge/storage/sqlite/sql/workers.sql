-- The newest incarnation of each worker, and older ones whose lease is alive. ?1 projects · ?2 now
-- by the clock that leases go by
select w.*, (select count(*) from running r where r.worker = w.incarnation) as active
from workers w
where w.project in (select value from json_each(?1))
  and (w.lease_until > ?2 or w.incarnation = (
        select n.incarnation from workers n
        where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
order by w.name, w.registered_at, w.incarnation
