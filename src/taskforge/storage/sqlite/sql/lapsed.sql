-- Running jobs whose claim is over, and why: 0 deadline, 1 its worker died, 2 timeout, 3 heartbeat,
-- 4 any of these three while another job held its worker's event loop, 5 its worker's lease ran
-- out, and how often that happened to the job before, 6 its worker died before the job was said to
-- have begun, though workers had died under it before, and how often that happened to it last, one
-- after the other. The timeout of the job that held the loop goes before the death of the worker
-- that it brought about. A job that was excused by another so often that nobody believes it is
-- treated as if there were none. Reads all of running, which is as small as what runs.
-- ?1 now · ?2 limit · ?3 the same by the clock that leases go by · ?4 the reason of executions that
-- were lost with a lease, ?5 of those that were held up · ?6 how often a job may be · ?7 the reason
-- of those that had not begun
select l.*,
    case why
        when 5 then (select count(*) from executions e where e.job = l.job and e.reason = ?4)
        when 6 then (
            select count(*) from executions e
            where e.job = l.job and e.epoch > (
                select coalesce(max(o.epoch), -1) from executions o where o.job = l.job and o.reason is not ?7))
    end as losses
from (
    select r.fence, r.lane, r.attempt, r.max_attempts, r.crashes, r.cancel_requested, r.timeout_seconds, r.beat_seconds, w.name, r.worker,
        case
            when r.deadline <= ?1 then 0
            when w.blocking <> r.fence and (w.lease_until <= ?3 or r.timeout_at <= ?1 or r.beat_by <= ?1)
                and (select count(*) from executions e where e.job = r.job and e.reason = ?5) < ?6 then 4
            when w.blocking = r.fence and r.timeout_at <= ?1 then 2
            when w.died_at is not null then case when r.crashes > 0 and r.started_at is null then 6 else 1 end
            when w.incarnation is null or w.lease_until <= ?3 then 5
            when r.timeout_at <= ?1 then 2
            when r.beat_by <= ?1 then 3
        end as why,
        coalesce(r.deadline <= ?1, 0) as late, r.job
    from running r left join workers w on w.incarnation = r.worker
) l
where why is not null
limit ?2
