-- A page of the scaling policies of all projects. $1 behind this queue · $2 limit
-- include: scaling_policies
where p.queue > $1 and q.deleted_at is null order by p.queue limit $2
