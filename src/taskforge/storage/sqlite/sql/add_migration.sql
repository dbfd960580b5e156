-- A migration was applied. ?1 number · ?2 name · ?3 now
insert into migrations (number, name, applied_at) values (?1, ?2, ?3)
