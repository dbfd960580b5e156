-- A slot whose job was not taken by its queue. ?1 schedule · ?2 slot · ?3 why
update slots set outcome = 'refused', job = null, detail = ?3 where schedule = ?1 and at = ?2
