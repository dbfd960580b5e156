-- When a lease was last renewed: whoever could renew could write. ?1 now by the clock that leases
-- go by
select max(lease_until - cast(lease_seconds * 1000000 as integer)) from workers
where heartbeat_at is not null and lease_until - cast(lease_seconds * 1000000 as integer) <= ?1
