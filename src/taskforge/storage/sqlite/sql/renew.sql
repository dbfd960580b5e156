-- A worker that stops is shown as draining; its next life is not. It claims nothing more, so nobody
-- need read the catalog anew.
-- ?1 lease until · ?2 now · ?3 cpu · ?4 memory · ?5 healthy · ?6 incarnation · ?7 stopping · ?8
-- stuck slots
-- ?9 the fence that holds its event loop · ?10 lease seconds
update workers set lease_until = ?1, lease_seconds = ?10, heartbeat_at = ?2, updated_at = ?2, cpu_percent = ?3, memory_bytes = ?4, healthy = ?5,
    stopping = ?7, stuck_slots = ?8, blocking = ?9
where incarnation = ?6
returning drain_mode or stopping, coalesce(wished_slots, max_concurrent_jobs)
