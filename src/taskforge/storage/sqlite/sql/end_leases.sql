-- Leases of another boot are over. ?1 now
update workers set lease_until = min(lease_until, ?1)
