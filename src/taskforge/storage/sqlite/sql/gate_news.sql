-- What came of the executions of a queue since this was asked last. ?1 queue
-- With remove_gate_news.sql, what take_gate_news.sql is on PostgreSQL.
select sum(good), sum(bad) from gate_deltas where queue = ?1
