-- Again: jobs that live on after a claim (retry, snooze, hand-back, skip, dead letter) leave
-- running for ready or waiting under their next fence; the execution is appended to history.
-- $1 fences · $2 epochs · $3 next fences · $4 execution statuses · $5 delays (null: back at its old
-- turn) · $6 whether the attempt is spent · $7 whether it crashed · $8 the worker that skipped it ·
-- $9 lane, $10 queue, $11 max attempts of a dead letter · $12 errors ·
-- $13 reasons · $14 seconds the handler ran · $16 now (tests) · $17
-- whether only lapsed claims may move
-- $15 whether its arguments fitted no handler: without a delay the incarnation that says so takes it no more, with one it has waited
-- for another for long enough · $18 the key of a dead letter in a queue whose keys take turns
-- $19 what the error has in common with others of its group
-- Where the jobs of a key run one after the other, one that is tried again keeps its turn.
-- Returns the fences that were not moved, and without one each lane that holds jobs again, whether
-- limits have room now, and each lane whose circuits have something to hear, with whether some of it
-- failed. Whether a cancel request is why takes a new snapshot to
-- see: one that came while this statement waited for the row is not in its own.
with clock as materialized (
    select coalesce($16::timestamptz, statement_timestamp()) as now
),
gone as (
    delete from taskforge.running r
    where r.fence = any ($1::uuid[]) and not r.cancel_requested
      and (not $17 or r.timeout_at <= (select now from clock) or r.beat_by <= (select now from clock)
        or r.deadline <= (select now from clock)
        or not exists (select from taskforge.workers w where w.incarnation = r.worker and w.lease_until > (select now from clock)))
    returning *
),
paired as materialized (
    select g.*, i.fence as asked, i.epoch, i.next, i.status, i.delay, i.spent, i.crashed, i.skipper, i.lane as new_lane,
        i.queue as new_queue, i.max_attempts as new_max_attempts, i.error, i.reason, i.ran, i.misfit, i.key as new_key, i.kind
    from gone g
    full join unnest($1::uuid[], $2::int[], $3::uuid[], $4::smallint[], $5::float8[], $6::bool[], $7::bool[], $8::uuid[], $9::int[],
        $10::int[], $11::int[], $12::text[], $13::text[], $14::float8[], $15::bool[], $18::bigint[], $19::bytea[])
        as i (fence, epoch, next, status, delay, spent, crashed, skipper, lane, queue, max_attempts, error, reason, ran, misfit, key, kind)
        on i.fence = g.fence
),
moved as materialized (
    select p.fence, p.job, p.project, p.worker, p.attempt, p.claimed_at, p.epoch, p.next, p.status, p.delay, p.error, p.reason, c.now,
        p.queue as old_queue, p.lane as old_lane, p.gate, p.guarded, coalesce(p.new_lane, p.lane) as lane, p.new_queue,
        case when p.new_lane is null then p.key else p.new_key end as key,
        p.key is not null and p.new_lane is null and exists (
            select from taskforge.queues q
            where q.number = p.queue and q.settings -> 'fairness' -> 'max_concurrent_per_key' = '1') as serial,
        case when p.new_lane is not null then 0 when p.spent then p.attempt else p.attempt - 1 end as spent,
        coalesce(p.new_max_attempts, p.max_attempts) as max_attempts,
        case when p.new_lane is not null then 0 when p.crashed then p.crashes + 1 else p.crashes end as crashes,
        p.keyed, p.turn, p.misfit,
        case when p.new_queue is null then coalesce(p.misfit_at, case when p.misfit then c.now end) end as misfit_at,
        case
            when p.new_queue is not null or (p.misfit and p.delay is not null) then null
            -- The next incarnation may have another handler. Those that are gone are forgotten:
            -- their number is bounded.
            when p.misfit then array(
                select s.id from unnest(p.skipped) as s (id)
                where not exists (select from taskforge.workers w where w.incarnation = s.id and w.lease_until <= c.now)) || p.skipper
            when p.skipper is null then p.skipped
            else p.skipped || (select w.id from taskforge.workers w where w.incarnation = p.skipper)
        end as skipped,
        case when p.new_lane is null then p.deadline end as until,
        case when p.ran is null then p.started_at else c.now - make_interval(secs => p.ran) end as began,
        greatest(0, date_part('epoch', p.claimed_at) * 1e3::float8 - p.turn / 1e3::float8)::float8 as wait_ms,
        greatest(0, coalesce(p.ran, date_part('epoch', c.now - coalesce(p.started_at, p.claimed_at))) * 1e3::float8)::float8 as duration_ms,
        case when p.kind is not null then taskforge.failure_of(p.project, p.lane, p.kind) end as failure,
        row_number() over () as position
    from paired p cross join clock c
    where p.fence is not null
),
history as (
    insert into taskforge.executions (job, epoch, project, attempt, status, worker, claimed_at, started_at, finished_at, error, reason)
    select job, epoch, project, attempt, status, worker, claimed_at, began, now, error::json, reason from moved
),
later as (
    insert into taskforge.waiting (fence, job, project, lane, attempt, max_attempts, crashes, keyed, due, until, misfit_at, key, turn)
    select next, job, project, lane, spent, max_attempts, crashes, keyed, now + make_interval(secs => delay), until,
        case when misfit then misfit_at end, key, case when serial then turn end
    from moved where delay > 0
),
back as (
    insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn, until, skipped, misfit_at, key)
    select next, job, project, lane, spent, max_attempts, crashes, keyed and new_queue is null,
        case when delay is null or serial then turn else (date_part('epoch', now) * 1e6::float8)::bigint + position end, until, skipped, misfit_at, key
    from moved where delay is null or delay <= 0
),
facts as (
    update taskforge.jobs j set
        origin_queue = coalesce(j.origin_queue, j.queue),
        queue = m.new_queue, deadline = null, expires_at = null, buried_reason = m.reason, buried_error = m.error::json,
        buried_failure = m.failure
    from moved m
    where j.id = m.job and j.id = any (array(select job from moved where new_queue is not null))
),
event as (
    insert into taskforge.outbox (project, topic, queue, jobs, at)
    select project, 'job.retried', old_queue, array_agg(job), max(now) from moved where status = 6 group by project, old_queue
),
rollup as (
    insert into taskforge.rollup_deltas (project, queue, lane, worker, minute, status, count, durations, waits)
    select project, old_queue, old_lane, worker, date_trunc('minute', max(now)), status, count(*), array_agg(duration_ms::real),
        array_agg(wait_ms::real)
    from moved group by project, old_queue, old_lane, worker, status
),
failed as (
    insert into taskforge.failure_deltas (project, queue, job_type, failure, count, job, epoch, error_type, message, at)
    select m.project, m.old_queue, (select l.job_type from taskforge.lanes l where l.number = min(m.old_lane)), m.failure, count(*),
        (array_agg(m.job))[1], (array_agg(m.epoch))[1], (array_agg(m.error))[1]::json ->> 'type',
        left((array_agg(m.error))[1]::json ->> 'message', 1000), max(m.now)
    from moved m where m.failure is not null group by m.project, m.old_queue, m.failure
),
news as (
    insert into taskforge.gate_deltas (queue, good, bad)
    select old_queue, 0, count(*) from moved
    where gate is not null and status <> 5 and exists (select from taskforge.gates g where g.queue = moved.gate and g.learns)
    group by old_queue
),
circuit as (
    insert into taskforge.circuit_deltas (lane, asked_at, ended_at, good, bad, neither)
    select old_lane, date_part('epoch', claimed_at), date_part('epoch', max(now)), 0, count(*) filter (where status <> 5),
        count(*) filter (where status = 5)
    from moved where guarded group by old_lane, claimed_at
),
freed as (
    delete from taskforge.keys where scope = 0 and job = any (array(select job from moved where keyed and new_queue is not null))
)
select asked as fence, null::int as project, null::int as lane, null::bigint as key, null::bigint as turn, false as room, null::int as heard,
    false as failed from paired where fence is null
union all
select null, project, lane, key, min(case when delay is null or serial then turn else (date_part('epoch', now) * 1e6::float8)::bigint end), false, null, false
from moved where delay is null or delay <= 0 group by project, lane, key
union all
select null, null, null, null, null, true, null, false where exists (select from moved where gate is not null)
union all
select null, null, null, null, null, false, old_lane, bool_or(status <> 5) from moved where guarded group by old_lane
