-- The worker that was last started under a name: its id, the name that it is shown by, and what
-- operators wish of it. ?1 project · ?2 name
select id, name, wished_slots, drain_mode from workers where project = ?1 and given_name = ?2
order by registered_at desc, incarnation desc limit 1
