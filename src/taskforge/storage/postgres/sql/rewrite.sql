-- Change a job's facts. $1 job · $2 queue · $3 priority · $4 payload (null: keep) · $5 forget the
-- origin · $6 clear times that have passed · $7 now
update taskforge.jobs set edited_at = coalesce($7::timestamptz, statement_timestamp()), queue = $2, priority = $3, payload = coalesce($4::json, payload),
    origin_queue = case when $5 then null else origin_queue end,
    buried_reason = case when $5 then null else buried_reason end, buried_error = case when $5 then null else buried_error end,
    deadline = case when $6 and deadline <= coalesce($7::timestamptz, statement_timestamp()) then null else deadline end,
    expires_at = case when $6 and expires_at <= coalesce($7::timestamptz, statement_timestamp()) then null else expires_at end
where id = $1
returning least(deadline, expires_at) as until, deadline
