-- The facts of a job that is placed anew. ?1 queue · ?2 priority · ?3 payload · ?4 origin · ?5 deadline · ?6 expiry · ?7 now · ?8 job
update jobs set queue = ?, priority = ?, payload = ?, origin_queue = ?, deadline = ?, expires_at = ?, edited_at = ? where id = ?
