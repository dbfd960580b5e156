-- The scaling policy of a queue. $1 the queue's id
-- include: scaling_policies
where q.id = $1 and q.deleted_at is null
