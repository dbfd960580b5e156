-- $1 queue number · $2 name · $3 description · $4 priority · $5 settings · $6 is active · $7 now
-- (tests) · $8 the version of the project's catalog
update taskforge.queues set name = $2, description = $3, priority = $4, settings = $5::jsonb, is_active = $6, version = version + 1, stamp = $8,
    updated_at = coalesce($7::timestamptz, statement_timestamp())
where number = $1
