-- Change every incarnation of a worker that is not gone. $1 worker id · $2 project · $3 name · $4 max concurrent · $5 capabilities ·
-- $6 drain mode · nulls keep · $7 now (tests)
update taskforge.workers set name = coalesce($3, name), max_concurrent_jobs = coalesce($4, max_concurrent_jobs),
    capabilities = coalesce($5::jsonb, capabilities), drain_mode = coalesce($6, drain_mode),
    updated_at = coalesce($7::timestamptz, statement_timestamp())
where id = $1 and project = $2
returning incarnation
