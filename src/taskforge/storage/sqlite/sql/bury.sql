-- The facts of a dead letter: it remembers where it came from first, and no time presses it any more. ?1 queue · ?2 job
update jobs set origin_queue = coalesce(origin_queue, queue), queue = ?1, deadline = null, expires_at = null where id = ?2
