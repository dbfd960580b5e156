-- How many live queues these projects have, counted so far. $1 projects · $2 most
select count(*)::int from (
    select from taskforge.queues where project = any ($1::int[]) and deleted_at is null limit $2
) x
