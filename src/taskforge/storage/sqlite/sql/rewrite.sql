-- The facts of a job that is placed anew. ?1 queue · ?2 priority · ?3 payload · ?4 origin · ?5
-- deadline · ?6 expiry · ?7 why it was a dead letter ·
-- ?8 with which error · ?9 now · ?10 job
update jobs set queue = ?, priority = ?, payload = ?, origin_queue = ?, deadline = ?, expires_at = ?, buried_reason = ?, buried_error = ?, edited_at = ?
where id = ?
