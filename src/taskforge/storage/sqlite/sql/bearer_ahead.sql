-- Who keeps a name from being registered ahead of its process: workers that are there and bear it,
-- or were started under it, and those that are shown by it though they were started under another
-- one. ?1 project · ?2 name · ?3 now by the clock that leases go by
select w.id, w.name, w.given_name from workers w
where w.project = ?1 and (w.name = ?2 or w.given_name = ?2)
  and (w.lease_until > ?3 or (w.given_name <> ?2 and w.incarnation = (
        select n.incarnation from workers n
        where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1)))
