-- ?1 project · ?2 scope · ?3 key
delete from keys where project = ? and scope = ? and key = ?
