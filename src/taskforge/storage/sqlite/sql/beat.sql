-- News of a running job. ?1 now · ?2 when its handler started · ?3 progress · ?4 message · ?5 fence
-- The first start moves the timeout: claims wait in a worker's buffer before they run.
update running set
    heartbeat_at = ?1,
    beat_by = ?1 + cast(round(beat_seconds * 1000000) as integer),
    timeout_at = case when ?2 is null or started_at is not null then timeout_at
        else ?2 + cast(round(timeout_seconds * 1000000) as integer) end,
    started_at = coalesce(started_at, ?2),
    progress = coalesce(?3, progress),
    message = coalesce(?4, message)
where fence = ?5
