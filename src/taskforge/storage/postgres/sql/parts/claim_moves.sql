-- How every claim ends: what was chosen, by tier (queue priority, then job priority) and turn, is
-- put in running. The values are those of claim_lanes.sql.
-- `ctid = any(array(…))` and the lateral subqueries pin the plan to index and tid scans: as joins
-- they become hash joins that walk every dead row of earlier batches. The facts are found in one
-- go, an index scan for all of them in the partitions that may hold them, and joined in full, after
-- all else: that cannot become a nested loop, and a job without facts would still move, not vanish.
-- A key that stands for a worker (from 2^62 on) is of no use once that worker has the job: whatever
-- becomes of it, it is placed anew.
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
    select m.*, l.beat, l.gate, l.queue, l.guarded, coalesce(j.timeout_seconds, l.timeout) as timeout_seconds,
        j.payload, j.deadline, j.tags, j.extras, (select now from clock) as now
    from (moved m join lane l on l.number = m.lane and coalesce(l.key, 0) = coalesce(m.key, 0))
    full join facts j on j.id = m.job
),
placed as (
    insert into taskforge.running (fence, job, project, lane, queue, worker, attempt, max_attempts, crashes, keyed, turn, batch, claimed_at,
        timeout_at, timeout_seconds, beat_by, beat_seconds, deadline, gate, skipped, misfit_at, key, guarded)
    select fence, job, project, lane, queue, $1, attempt + 1, max_attempts, crashes, keyed, turn, $6, now,
        now + make_interval(secs => timeout_seconds), timeout_seconds, now + make_interval(secs => beat), beat, deadline, gate, skipped,
        misfit_at, case when key < 4611686018427387904 then key end, guarded
    from known
)
select fence, lane, attempt + 1 as attempt, max_attempts, crashes, payload, timeout_seconds, beat as beat_seconds, tags, extras, turn,
    date_part('epoch', deadline - now)::float8 as deadline_seconds,
    greatest(0, date_part('epoch', now) - turn / 1e6::float8)::float8 as waited_seconds,
    (select coalesce(busy_since, (select now from clock)) from holder) as busy_since, key
from known
