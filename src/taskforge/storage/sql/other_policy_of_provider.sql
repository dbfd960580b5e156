-- Another scaling policy that gets its workers from the same place. $1 provider · $2 the id of the queue
-- that it may have
-- include: scaling_policies
where p.provider = $1 and q.id <> $2 and q.deleted_at is null limit 1
