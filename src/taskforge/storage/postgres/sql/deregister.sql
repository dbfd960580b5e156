-- A worker leaves, or died: its lease ends now, or ended before. Once only.
-- $1 incarnation · $2 now (tests) · $3 whether it died · $4 projects, of one of which it is; null:
-- of any
with gone as (
    update taskforge.workers set lease_until = least(lease_until, c.now), left_at = c.now, updated_at = c.now,
        died_at = case when $3 then c.now end
    from (select coalesce($2::timestamptz, statement_timestamp()) as now) c
    where incarnation = $1 and left_at is null and ($4::int[] is null or project = any ($4))
    returning project, id, left_at
)
insert into taskforge.outbox (project, topic, worker, jobs, at) select project, 'worker.left', id, '{}', left_at from gone
