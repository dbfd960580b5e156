-- ?1 queue · ?2 worker
delete from assignments where queue = ?1 and worker = ?2
