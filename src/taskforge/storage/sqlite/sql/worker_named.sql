-- The identity that last registered under a name. ?1 project · ?2 name
select id from workers where project = ?1 and name = ?2 order by registered_at desc, incarnation desc limit 1
