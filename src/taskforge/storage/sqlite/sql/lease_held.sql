-- What a renewal goes by: one incarnation's lease, for how long it was asked, and its health.
-- ?1 incarnation
select lease_until, healthy, lease_seconds, heartbeat_at, project from workers where incarnation = ?1 and left_at is null
