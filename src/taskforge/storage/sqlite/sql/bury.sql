-- The facts of a dead letter: it remembers where it came from first and why it left, and no time
-- presses it any more.
-- ?1 queue · ?2 job · ?3 reason · ?4 error · ?5 the group of
-- its failure
update jobs set origin_queue = coalesce(origin_queue, queue), queue = ?1, deadline = null, expires_at = null, buried_reason = ?3, buried_error = ?4,
    buried_failure = ?5
where id = ?2
