-- What was claimed before a queue had a limit counts towards it too. ?1 queue
update running set gate = ?1 where gate is null and lane in (select number from lanes where queue = ?1)
