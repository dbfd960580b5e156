-- End: jobs that are over (succeeded, failed, cancelled) leave running; history, tallies, rollups
-- and an event are appended.
-- $1 fences · $2 epochs, or $9 that of all · $3 statuses, or $4 the status of all (of the job and,
-- by the same number, of its execution) · $5 seconds the handler ran (null: not known) · $6 results
-- · $7 errors · $8 reasons · $10 now (tests) · $11 whether only lapsed
-- claims may be ended · $12 what the error has in common with others of its group · arrays that hold nothing but nulls may be null
-- Returns the fences that were lost, a row without one when limits have room now, and one for each
-- lane whose circuits have something to hear, with whether some of it failed. Deleting by `fence = any($1)` keeps the plan an index scan;
-- the rest is joined to what came back, by a full join because that cannot become a nested loop:
-- once `running` had been analysed, an inner join took 350 ms for 1,000 jobs. An ending stands even
-- when a cancel came first: the work is done. Of two reasons for a cancel the operator's counts.
-- Times are taken apart by date_part, not extract: numeric arithmetic on them cost a fifth of the
-- whole statement.
with clock as materialized (
    select coalesce($10::timestamptz, statement_timestamp()) as now
),
gone as (
    delete from taskforge.running r
    where r.fence = any ($1::uuid[])
      and (not $11 or r.timeout_at <= (select now from clock) or r.beat_by <= (select now from clock)
        or r.deadline <= (select now from clock)
        or not exists (select from taskforge.workers w where w.incarnation = r.worker and w.lease_until > (select now from clock)))
    returning *
),
paired as materialized (
    select g.*, i.fence as asked, coalesce(i.epoch, $9::int) as epoch, coalesce(i.status, $4) as status, i.ran, i.result, i.error, i.reason, i.kind
    from gone g
    full join unnest($1::uuid[], $2::int[], $3::smallint[], $5::float8[], $6::text[], $7::text[], $8::text[], $12::bytea[])
        as i (fence, epoch, status, ran, result, error, reason, kind) on i.fence = g.fence
),
ended as materialized (
    select p.*, c.now,
        case when p.ran is null then p.started_at else c.now - make_interval(secs => p.ran) end as began,
        greatest(0, date_part('epoch', p.claimed_at) * 1e3::float8 - p.turn / 1e3::float8)::float8 as wait_ms,
        greatest(0, coalesce(p.ran, date_part('epoch', c.now - coalesce(p.started_at, p.claimed_at))) * 1e3::float8)::float8 as duration_ms,
        case when p.kind is not null then taskforge.failure_of(p.project, p.lane, p.kind) end as failure
    from paired p cross join clock c
    where p.fence is not null
),
history as (
    insert into taskforge.finished (job, queue, project, status, epoch, attempt, max_attempts, crashes, worker, claimed_at,
        started_at, finished_at, result, error, reason, progress, message, failure)
    select job, queue, project, status, epoch, attempt, max_attempts, crashes, worker, claimed_at, began, now, result::json,
        error::json, case when status = 5 then coalesce(cancel_reason, reason) else reason end, progress, message, failure
    from ended
),
tally as (
    insert into taskforge.tally_deltas (project, queue, status, count)
    select project, queue, status, count(*) from ended group by 1, 2, 3
),
rollup as (
    insert into taskforge.rollup_deltas (project, queue, lane, worker, minute, status, count, durations, waits)
    select project, queue, lane, worker, date_trunc('minute', max(now)), status, count(*), array_agg(duration_ms::real),
        array_agg(wait_ms::real)
    from ended group by project, queue, lane, worker, status
),
failed as (
    insert into taskforge.failure_deltas (project, queue, job_type, failure, count, job, epoch, error_type, message, at)
    select e.project, e.queue, (select l.job_type from taskforge.lanes l where l.number = min(e.lane)), e.failure, count(*), (array_agg(e.job))[1],
        (array_agg(e.epoch))[1], (array_agg(e.error))[1]::json ->> 'type', left((array_agg(e.error))[1]::json ->> 'message', 1000), max(e.now)
    from ended e where e.failure is not null group by e.project, e.queue, e.failure
),
event as (
    insert into taskforge.outbox (project, topic, queue, jobs, at)
    select project, 'job.' || (array['succeeded', 'failed', 'cancelled'])[status - 2], queue, array_agg(job), max(now)
    from ended group by project, queue, status
),
news as (
    insert into taskforge.gate_deltas (queue, good, bad)
    select queue, count(*) filter (where status = 3), count(*) filter (where status = 4)
    from ended where gate is not null and status <> 5 and exists (select from taskforge.gates g where g.queue = ended.gate and g.learns)
    group by queue
),
circuit as (
    insert into taskforge.circuit_deltas (lane, asked_at, ended_at, good, bad, neither)
    select lane, date_part('epoch', claimed_at), date_part('epoch', max(now)), count(*) filter (where status = 3),
        count(*) filter (where status = 4), count(*) filter (where status = 5)
    from ended where guarded group by lane, claimed_at
),
freed as (
    delete from taskforge.keys where scope = 0 and job = any (array(select job from ended where keyed))
)
select asked as fence, null::int as lane, false as failed from paired where fence is null
union all
select null, null, false where exists (select from ended where gate is not null)
union all
select null, lane, bool_or(status = 4) from ended where guarded group by lane
