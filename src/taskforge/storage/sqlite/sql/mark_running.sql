-- A line is a sign that the handler runs, as a heartbeat is. ?1 now · ?2 fence
update running set heartbeat_at = ?1, started_at = coalesce(started_at, claimed_at) where fence = ?2 and heartbeat_at is null
