-- The number of a queue, deleted or not. $1 id
select number from taskforge.queues where id = $1
