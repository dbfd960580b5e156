-- The facts of a job that is placed anew. ?1 queue · ?2 priority · ?3 origin · ?4 deadline · ?5
-- expiry · ?6 why it was a dead letter · ?7 with which error · ?8 payload as bytes (null: keep; as text it would be copied) · ?9 now ·
-- ?10 job
update jobs set queue = ?1, priority = ?2, origin_queue = ?3, deadline = ?4, expires_at = ?5, buried_reason = ?6, buried_error = ?7,
    buried_failure = case when ?6 is null then null else buried_failure end,
    payload = coalesce(cast(?8 as text), payload), edited_at = ?9
where id = ?10
