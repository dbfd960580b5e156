-- Mark a queue deleted: its name is free again, its history stays. ?1 queue · ?2 now · ?3 the version
-- of the project's catalog
update queues set deleted_at = ?2, updated_at = ?2, stamp = ?3 where number = ?1
