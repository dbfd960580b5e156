-- Log lines of a job, and its executions that ended, without what they returned, which have no
-- number: both oldest first. One statement, one snapshot: were ends read before lines, or behind
-- them, a reader could go on behind a line of the next execution and never see the end of the one
-- before.
-- $1 job · $2 projects · $3 least level · $4 behind this epoch and $5 number · $6 last epoch · $7
-- limit of each · $8 first epoch whose end is told · $9 statuses of ends
(
    select epoch, number, level, message, metadata, logged_at, null::int as attempt, null::smallint as status,
        null::timestamptz as claimed_at, null::timestamptz as started_at, null::timestamptz as finished_at, null::json as error, null as reason
    from taskforge.logs
    where job = $1 and project = any ($2::int[]) and level >= $3 and (epoch, number) > ($4, $5) and epoch <= $6
    order by epoch, number limit $7
)
union all
(
    select epoch, null, null, null, null, null, attempt, status, claimed_at, started_at, finished_at, error, reason
    from (
        select e.epoch, e.attempt, e.status, e.claimed_at, e.started_at, e.finished_at, e.error, e.reason
        from taskforge.executions e
        where e.job = $1 and e.project = any ($2::int[]) and e.epoch between $8 and $6 and e.status = any ($9::int[])
        union all
        select f.epoch, f.attempt, f.status, f.claimed_at, f.started_at, f.finished_at, f.error, f.reason
        from taskforge.jobs j join taskforge.finished f on f.queue = j.queue and f.job = j.id
        where j.id = $1 and j.project = any ($2::int[]) and f.epoch > 0 and f.epoch between $8 and $6 and f.status = any ($9::int[])
    ) ended
    order by epoch limit $7
)
