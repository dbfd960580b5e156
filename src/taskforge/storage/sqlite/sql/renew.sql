-- ?1 lease until · ?2 now · ?3 cpu · ?4 memory · ?5 healthy · ?6 incarnation
update workers set lease_until = ?1, heartbeat_at = ?2, updated_at = ?2, cpu_percent = ?3, memory_bytes = ?4, healthy = ?5
where incarnation = ?6
