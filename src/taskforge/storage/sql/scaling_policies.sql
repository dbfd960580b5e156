-- The scaling policies of a project, in the order in which their queues were made. $1 project · $2
-- behind this queue · $3 limit
-- include: scaling_policies
where p.project = $1 and p.queue > $2 and q.deleted_at is null order by p.queue limit $3
