-- Deltas of rollups that nobody else is folding leave their table; what their workers have done is
-- added to the totals of these. Workers are told by their identities.
-- $1 limit
with gone as (
    delete from taskforge.rollup_deltas where number = any (array(
        select number from taskforge.rollup_deltas order by number limit $1 for update skip locked))
    returning *
), served as (
    insert into taskforge.worker_tallies as t (worker, status, project, count)
    select w.id, g.status, min(g.project), sum(g.count) from gone g join taskforge.workers w on w.incarnation = g.worker
    where g.lane is not null
    group by 1, 2 order by 1, 2
    on conflict (worker, status) do update set count = t.count + excluded.count
)
select g.project, g.queue, coalesce(l.job_type, g.job_type, '') as job_type, coalesce(w.id, case when g.lane is null then g.worker end) as worker,
    (extract(epoch from g.minute) / 60)::int as minute, g.status, g.count, g.durations, g.waits, g.gauges
from gone g
left join taskforge.lanes l on l.number = g.lane
left join taskforge.workers w on w.incarnation = g.worker
