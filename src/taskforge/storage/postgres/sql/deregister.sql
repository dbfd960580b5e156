-- A worker leaves: its lease ends now. Once only. $1 incarnation · $2 now (tests)
with gone as (
    update taskforge.workers set lease_until = least(lease_until, c.now), left_at = c.now, updated_at = c.now
    from (select coalesce($2::timestamptz, statement_timestamp()) as now) c
    where incarnation = $1 and left_at is null
    returning project, id, left_at
)
insert into taskforge.outbox (project, topic, worker, jobs, at) select project, 'worker.left', id, '{}', left_at from gone
