-- News of a running job. ?1 now · ?2 when its handler started · ?3 progress · ?4 message · ?5
-- whether it is the handler that was heard of, and not only its worker that says when it began · ?6
-- fence
-- The first start moves the timeouts: claims wait in a worker's buffer before they run. Whoever is
-- heard of has started, by its claim if nobody said when.
update running set
    heartbeat_at = case when ?5 then ?1 else heartbeat_at end,
    beat_by = case
        when ?5 then ?1 + cast(round(beat_seconds * 1000000) as integer)
        when ?2 is not null and started_at is null then ?2 + cast(round(beat_seconds * 1000000) as integer)
        else beat_by end,
    timeout_at = case when ?2 is null or started_at is not null then timeout_at
        else ?2 + cast(round(timeout_seconds * 1000000) as integer) end,
    started_at = coalesce(started_at, ?2, case when ?5 then claimed_at end),
    progress = coalesce(?3, progress),
    message = coalesce(?4, message)
where fence = ?6
