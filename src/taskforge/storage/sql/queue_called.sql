-- The number of a live queue. $1 project · $2 name
select number from taskforge.queues where project = $1 and name = $2 and deleted_at is null
