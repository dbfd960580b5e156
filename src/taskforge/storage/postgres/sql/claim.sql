-- Claim: take up to $4 jobs from the lanes given, by tier (queue priority, then job priority) and
-- turn, and put them in running.
-- $1 incarnation · $2 catalog version the caller remembers · $3 now (tests) · $4 limit · $5 worker
-- id (for skips) · $6 batch · then one entry for each lane: $7 number · $8 tier · $9 seek past this
-- turn · $10 look at this many · $11 timeout · $12 heartbeat timeout · $13 gate ·
-- $14 how many its gate lets through · $15 queue · $16 how many of the queue may run at once, where
-- this statement is to see to that · and $17 how many of the worker's jobs have ended and are being
-- reported · $18 since when it runs what it runs, or null · $19 project
-- Nothing is taken when the caller's lease is over or its memory of the catalog is stale; the
-- caller asks why only then. `chosen` is put in from claim_one.sql, claim_many.sql or
-- claim_some.sql.
-- `ctid = any(array(…))` and the lateral subqueries pin the plan to index and tid scans: as joins
-- they become hash joins that walk every dead row of earlier batches. The facts are found in one
-- go, an index scan for all of them in the partitions that may hold them, and joined in full, after
-- all else: that cannot become a nested loop, and a job without facts would still move, not vanish.
with clock as materialized (
    select coalesce($3::timestamptz, statement_timestamp()) as now
),
gate as materialized (
    select g.queue, taskforge.running_behind(g.queue) as running
    from (select distinct l.queue from unnest($13::int[], $16::int[]) as l (queue, running_most) where l.running_most is not null) g
),
lane as materialized (
    select l.number, l.tier, l.bound, l.most, l.timeout, l.beat, l.gate, l.queue,
        case when l.running_most is null then l.cap
            else coalesce(greatest(0, l.running_most - (select running from gate g where g.queue = l.gate)), 0) end as cap
    from unnest($7::int[], $8::int[], $9::bigint[], $10::int[], $11::float8[], $12::float8[], $13::int[], $14::int[],
        $15::int[], $16::int[]) as l (number, tier, bound, most, timeout, beat, gate, cap, queue, running_most)
    where (select catalog_version from taskforge.projects where number = $19) = $2
      and exists (select from taskforge.workers where incarnation = $1 and lease_until > (select now from clock))
),
$chosen,
-- Only where there is something to take: whoever finds nothing writes nothing and holds nobody up.
holder as materialized (
    select r.room, r.busy_since
    from (select) one cross join lateral taskforge.take_room($1, (select now from clock), $17, $18) r
    where exists (select from chosen)
),
moved as (
    delete from taskforge.ready where ctid = any (array(select place from chosen limit coalesce((select room from holder), 0))) returning *
),
facts as materialized (
    select id, payload, deadline, timeout_seconds, tags, extras from taskforge.jobs
    where id = any (array(select job from moved))
      and id >= (select job from moved order by job limit 1) and id <= (select job from moved order by job desc limit 1)
),
known as materialized (
    select m.*, l.beat, l.gate, l.queue, coalesce(j.timeout_seconds, l.timeout) as timeout_seconds,
        j.payload, j.deadline, j.tags, j.extras, (select now from clock) as now
    from (moved m join lane l on l.number = m.lane)
    full join facts j on j.id = m.job
),
placed as (
    insert into taskforge.running (fence, job, project, lane, queue, worker, attempt, max_attempts, crashes, keyed, turn, batch, claimed_at,
        timeout_at, timeout_seconds, beat_by, beat_seconds, deadline, gate, skipped, misfit_at)
    select fence, job, project, lane, queue, $1, attempt + 1, max_attempts, crashes, keyed, turn, $6, now,
        now + make_interval(secs => timeout_seconds), timeout_seconds, now + make_interval(secs => beat), beat, deadline, gate, skipped,
        misfit_at
    from known
)
select fence, lane, attempt + 1 as attempt, max_attempts, crashes, payload, timeout_seconds, beat as beat_seconds, tags, extras, turn,
    date_part('epoch', deadline - now)::float8 as deadline_seconds,
    greatest(0, date_part('epoch', now) - turn / 1e6::float8)::float8 as waited_seconds,
    (select coalesce(busy_since, (select now from clock)) from holder) as busy_since
from known
