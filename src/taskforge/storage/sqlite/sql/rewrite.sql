-- The facts of a job that is placed anew; out of a final status, times that have passed are cleared.
-- ?1 queue · ?2 priority · ?3 payload or null · ?4 whether it forgets its origin · ?5 whether it comes out of a final status · ?6 now · ?7 job
update jobs set
    queue = ?1,
    priority = ?2,
    payload = coalesce(?3, payload),
    origin_queue = case when ?4 then null else origin_queue end,
    deadline = case when ?5 and deadline <= ?6 then null else deadline end,
    expires_at = case when ?5 and expires_at <= ?6 then null else expires_at end
where id = ?7
returning deadline, expires_at
