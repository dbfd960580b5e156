-- Change every incarnation of a worker; nulls keep. ?1 name · ?2 slots that are wished · ?3
-- capabilities · ?4 drain mode · ?5 now ·
-- ?6 worker id · ?7 project · ?8 whether it has as many slots as it was started with
update workers set name = coalesce(?1, name), wished_slots = case when ?8 then null else coalesce(?2, wished_slots) end,
    capabilities = coalesce(?3, capabilities), drain_mode = coalesce(?4, drain_mode), updated_at = ?5
where id = ?6 and project = ?7
