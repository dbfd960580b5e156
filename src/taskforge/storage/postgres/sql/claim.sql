-- Claim: take up to $4 jobs from the lanes in $5, by tier (queue priority, then job priority) and turn, and put them in running.
-- $1 incarnation · $2 catalog version the caller remembers · $3 now (tests) · $4 limit · $5.. one entry for each lane:
-- number, tier, seek past this turn, look at this many, timeout, heartbeat timeout, gate · $12 worker id (for skips)
-- Nothing is taken when the caller's lease is over or its memory of the catalog is stale; the caller asks why only then.
-- Each lane yields at most $8 rows; where that cuts a lane off, only what sorts before the cut is taken, so that the order stays exact.
-- `ctid = any(array(…))` and the lateral subqueries pin the plan to index and tid scans: as joins they turn into hash joins with a
-- scan of every dead row of earlier batches. The facts are joined from the outside so that a job without them still moves.
with clock as materialized (
    select coalesce($3::timestamptz, statement_timestamp()) as now
),
lane as materialized (
    select l.*
    from unnest($5::int[], $6::int[], $7::bigint[], $8::int[], $9::float8[], $10::float8[], $11::int[])
        as l (number, tier, bound, most, timeout, beat, gate)
    where (select version from taskforge.catalog) = $2
      and exists (select from taskforge.workers where incarnation = $1 and lease_until > (select now from clock))
),
candidate as materialized (
    select l.number, l.tier, l.most, r.place, r.turn
    from lane l cross join lateral (
        select ready.ctid as place, ready.turn
        from taskforge.ready
        where ready.lane = l.number and ready.turn > l.bound and (ready.skipped is null or $12 <> all (ready.skipped))
        order by ready.turn limit l.most
        for update skip locked
    ) r
),
horizon as (
    select tier, max(turn) as turn from candidate group by number, tier, most having count(*) >= most order by 1, 2 limit 1
),
chosen as (
    select place from candidate
    where (tier, turn) <= (coalesce((select tier from horizon), 2147483647), coalesce((select turn from horizon), 0))
       or not exists (select from horizon)
    order by tier, turn limit $4
),
moved as (
    delete from taskforge.ready where ctid = any (array(select place from chosen)) returning *
),
known as materialized (
    select m.*, l.beat, l.gate, coalesce(j.timeout_seconds, l.timeout) as timeout_seconds,
        j.payload, j.deadline, j.tags, j.trace, (select now from clock) as now
    from moved m
    join lane l on l.number = m.lane
    left join lateral (
        select payload, deadline, timeout_seconds, tags, trace from taskforge.jobs where id = m.job limit 1
    ) j on true
),
placed as (
    insert into taskforge.running (fence, job, project, lane, worker, attempt, max_attempts, crashes, keyed, turn, claimed_at,
        timeout_at, timeout_seconds, beat_by, deadline, gate, skipped)
    select fence, job, project, lane, $1, attempt + 1, max_attempts, crashes, keyed, turn, now,
        now + make_interval(secs => timeout_seconds), timeout_seconds, now + make_interval(secs => beat), deadline, gate, skipped
    from known
)
select fence, lane, attempt + 1 as attempt, max_attempts, crashes, payload, timeout_seconds, tags, trace, turn,
    extract(epoch from deadline - now)::float8 as deadline_seconds,
    greatest(0, extract(epoch from now) - turn / 1e6)::float8 as waited_seconds
from known
