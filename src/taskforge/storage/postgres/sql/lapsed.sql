-- Running jobs whose claim is over by the store's clock, and why: 0 deadline, 1 its worker died, 2
-- timeout, 3 heartbeat, 4 any of these three while another job held its worker's event loop, 5 its
-- worker's lease ran out, and how often that happened to the job before, 6 its worker died before
-- the job was said to have begun, though workers had died under it before, and how often that
-- happened to it last, one after the other. The timeout of the job that held the loop goes before
-- the death of the worker that it brought about. A job that was excused by another so often that
-- nobody believes it is treated as if there were none.
-- One row with -1 instead when nobody looked for longer than was promised: bridge.sql goes first
-- then. The look is a write: whoever cannot write must not judge those who could not either.
-- $1 limit · $2 now (tests) · $3 seconds: none if somebody has looked within them · $4 rhythm of
-- the looks from now on, in seconds; null: nothing new is promised ·
-- $5 the reason of executions that were lost with a lease, $6 of those that were held up · $7 how
-- often a job may be · $8 the reason of those that had not begun · reads all of running, which is
-- as small as what runs
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
),
last as materialized (
    select l.at > c.now or l.at <= c.now - make_interval(secs => $3) as due,
        coalesce(abs(date_part('epoch', c.now - l.at)) > l.rhythm, false) as silent
    from taskforge.looks l cross join clock c
),
mine as (
    -- Who finds the row locked does not wait: somebody looks just now.
    update taskforge.looks set at = (select now from clock), rhythm = coalesce($4::float8, rhythm) where one = (
        select l.one from taskforge.looks l
        where (l.at <= (select now from clock) - make_interval(secs => $3) or l.at > (select now from clock))
          and exists (select from last where not silent)
        for update skip locked)
    returning at
)
select lapsed.*,
    case why
        when 5 then (select count(*) from taskforge.executions e where e.job = lapsed.job and e.reason = $5)
        when 6 then (
            select count(*) from taskforge.executions e
            where e.job = lapsed.job and e.epoch > (
                select coalesce(max(o.epoch), -1) from taskforge.executions o
                where o.job = lapsed.job and o.reason is distinct from $8))
    end as losses
from (
    select r.fence, r.job, r.lane, r.attempt, r.max_attempts, r.crashes, r.cancel_requested, r.timeout_seconds, r.beat_seconds,
        coalesce(w.name, r.worker::text) as worker,
        case
            when r.deadline <= c.now then 0
            when w.blocking <> r.fence and (w.lease_until <= c.now or r.timeout_at <= c.now or r.beat_by <= c.now)
                and (select count(*) from taskforge.executions e where e.job = r.job and e.reason = $6) < $7 then 4
            when w.blocking = r.fence and r.timeout_at <= c.now then 2
            when w.died_at is not null then case when r.crashes > 0 and r.started_at is null then 6 else 1 end
            when w.incarnation is null or w.lease_until <= c.now then 5
            when r.timeout_at <= c.now then 2
            when r.beat_by <= c.now then 3
        end as why
    from taskforge.running r
    left join taskforge.workers w on w.incarnation = r.worker
    cross join clock c
    where exists (select from mine)
) lapsed
where why is not null
union all
select null, null, null, null, null, null, null, null, null, null, -1, null from last where due and silent
limit $1
