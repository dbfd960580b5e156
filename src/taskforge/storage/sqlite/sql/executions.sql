-- The executions of a job: earlier ones and the last of a finished job by their epoch, the one now
-- running by its fence.
-- ?1 job · ?2 its highest fence · ?3 projects
select epoch, attempt, status, worker, claimed_at, started_at, finished_at, beat, timeout, output, error, reason,
    coalesce(a.id, b.id), coalesce(a.name, b.name)
from (
    select e.epoch, e.attempt, e.status, e.worker, e.claimed_at, e.started_at, e.finished_at, null as beat, null as timeout, e.output, e.error, e.reason
    from executions e where e.job = ?1 and e.project in (select value from json_each(?3))
    union all
    select r.fence, r.attempt, case when r.heartbeat_at is not null then 2 when r.started_at is not null then 1 else 0 end, r.worker, r.claimed_at,
        r.started_at, null, r.heartbeat_at, r.timeout_at, null, null, null
    from running r where r.fence > ?1 and r.fence <= ?2 and r.project in (select value from json_each(?3))
    union all
    select f.epoch, f.attempt, f.status, f.worker, f.claimed_at, f.started_at, f.finished_at, null, null, f.result, f.error, f.reason
    from jobs j join finished f on f.queue = j.queue and f.job = j.id
    where j.id = ?1 and j.project in (select value from json_each(?3)) and f.epoch > 0
)
left join workers a on a.incarnation = worker
left join former_workers b on b.incarnation = worker
