-- The number of a queue, deleted or not. ?1 id
select number from queues where id = ?1
