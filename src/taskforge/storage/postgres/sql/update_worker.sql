-- Change every incarnation of a worker. $1 worker id · $2 project · $3 name · $4 slots that are
-- wished · $5 capabilities · $6 drain mode · nulls keep · $7 now (tests) · $8 whether it has as
-- many slots as it was started with
update taskforge.workers set name = coalesce($3, name), wished_slots = case when $8 then null else coalesce($4, wished_slots) end,
    capabilities = coalesce($5::jsonb, capabilities), drain_mode = coalesce($6, drain_mode),
    updated_at = coalesce($7::timestamptz, statement_timestamp())
where id = $1 and project = $2
