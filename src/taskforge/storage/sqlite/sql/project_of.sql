-- Whose a queue is. ?1 queue
select project from queues where number = ?1
