-- Change the facts of jobs. $1 jobs · $2 queues · $3 priorities · $4 whether to clear times that have
-- passed, each · $5 payload for all as bytes (null: keep; as text it would be copied) · $6 forget the origin · $7 now
update taskforge.jobs j set edited_at = coalesce($7::timestamptz, statement_timestamp()), queue = g.queue, priority = g.priority,
    payload = coalesce(convert_from($5::bytea, 'UTF8')::json, payload), origin_queue = case when $6 then null else origin_queue end,
    buried_reason = case when $6 then null else buried_reason end, buried_error = case when $6 then null else buried_error end,
    buried_failure = case when $6 then null else buried_failure end,
    deadline = case when g.clears and deadline <= coalesce($7::timestamptz, statement_timestamp()) then null else deadline end,
    expires_at = case when g.clears and expires_at <= coalesce($7::timestamptz, statement_timestamp()) then null else expires_at end
from unnest($1::uuid[], $2::int[], $3::int[], $4::bool[]) as g (job, queue, priority, clears)
where j.id = g.job
returning j.id, least(j.deadline, j.expires_at) as until, j.deadline
