-- The boot of the machine that leases go by. ?1 boot · ?2 what is added to the time since it
insert or replace into boot (one, id, behind) values (1, ?1, ?2)
