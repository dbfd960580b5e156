-- Change every incarnation of a worker; nulls keep. ?1 name · ?2 max concurrent jobs · ?3 capabilities · ?4 drain mode · ?5 now · ?6 worker id ·
-- ?7 project
update workers set name = coalesce(?1, name), max_concurrent_jobs = coalesce(?2, max_concurrent_jobs),
    capabilities = coalesce(?3, capabilities), drain_mode = coalesce(?4, drain_mode), updated_at = ?5
where id = ?6 and project = ?7
