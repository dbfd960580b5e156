-- Executions now running, oldest claim first. ?1 projects · ?2 whether only those past their
-- timeout · ?3 now · ?4 limit
select r.fence, r.attempt, case when r.heartbeat_at is not null then 2 when r.started_at is not null then 1 else 0 end, r.worker, r.claimed_at,
    r.started_at, null, r.heartbeat_at, r.timeout_at, null, null, null, w.id, w.name
from running r left join workers w on w.incarnation = r.worker
where r.project in (select value from json_each(?1)) and (not ?2 or r.timeout_at <= ?3)
order by r.claimed_at, r.fence limit ?4
