-- Executions of a job that ended, oldest first, without what they returned. $1 job · $2 projects · $3 first and $4 last epoch · $5 statuses ·
-- $6 limit
select * from (
    select e.epoch, e.attempt, e.status, e.claimed_at, e.started_at, e.finished_at, e.error, e.reason
    from taskforge.executions e
    where e.job = $1 and e.project = any ($2::int[]) and e.epoch between $3 and $4 and e.status = any ($5::int[])
    union all
    select f.epoch, f.attempt, f.status, f.claimed_at, f.started_at, f.finished_at, f.error, f.reason
    from taskforge.jobs j join taskforge.finished f on f.queue = j.queue and f.job = j.id
    where j.id = $1 and j.project = any ($2::int[]) and f.epoch > 0 and f.epoch between $3 and $4 and f.status = any ($5::int[])
) ended
order by epoch limit $6
