-- Adopt: what earlier claim calls of this incarnation took although their answers never arrived; as
-- a claim says it, with the batch behind.
-- $1 incarnation · $2 batches in doubt · $3 now (tests)
select r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, j.payload, r.timeout_seconds, r.beat_seconds, j.tags, j.extras, r.turn,
    date_part('epoch', r.deadline - coalesce($3::timestamptz, statement_timestamp()))::float8 as deadline_seconds,
    greatest(0, date_part('epoch', r.claimed_at) - r.turn / 1e6::float8)::float8 as waited_seconds,
    r.batch, r.key
from taskforge.running r
left join lateral (select payload, tags, extras from taskforge.jobs where id = r.job limit 1) j on true
where r.worker = $1 and r.batch = any ($2::bigint[])
