-- ?1 the last delta to fold
insert into worker_tallies (worker, status, project, count)
select w.id, d.status, min(d.project), sum(d.count) from rollup_deltas d join workers w on w.incarnation = d.worker
where d.number <= ?1 and d.lane is not null group by w.id, d.status
on conflict do update set count = count + excluded.count
