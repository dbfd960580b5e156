-- ?1 name · ?2 description · ?3 priority · ?4 settings · ?5 active · ?6 now · ?7 the version of
-- the project's catalog · ?8 queue
update queues set name = ?, description = ?, priority = ?, settings = ?, is_active = ?, updated_at = ?, version = version + 1, stamp = ?
where number = ?
