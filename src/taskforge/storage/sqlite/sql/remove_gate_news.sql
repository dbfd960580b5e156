-- What gate_news.sql told is not told again. ?1 queue
delete from gate_deltas where queue = ?1
