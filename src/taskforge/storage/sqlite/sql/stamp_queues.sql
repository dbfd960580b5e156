-- These queues, or what belongs to them, have just changed: who is behind this version reads them
-- again. ?1 version · ?2 id
update queues set stamp = ?1 where id = ?2
