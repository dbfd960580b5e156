-- Deltas of rollups, to be folded. Workers are told by their identities. ?1 the last delta
select d.project, d.queue, coalesce(l.job_type, d.job_type, ''), coalesce(w.id, case when d.lane is null then d.worker end),
    d.minute / 60000000, d.status, d.count, d.durations, d.waits, d.gauges
from rollup_deltas d left join lanes l on l.number = d.lane left join workers w on w.incarnation = d.worker
where d.number <= ?1
