-- A page of the scaling policies that are not paused. $1 behind this queue · $2 limit
-- include: scaling_policies
where p.queue > $1 and not p.is_paused and q.deleted_at is null order by p.queue limit $2
