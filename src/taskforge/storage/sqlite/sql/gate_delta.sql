-- What came of executions of a queue whose rate limit learns from it. ?1 queue · ?2 good · ?3 bad
insert into gate_deltas (queue, good, bad) values (?, ?, ?)
