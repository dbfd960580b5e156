-- $1 limit
with gone as (
    delete from taskforge.rollup_deltas where number = any (array(
        select number from taskforge.rollup_deltas order by number limit $1 for update skip locked))
    returning *
), summed as (
    insert into taskforge.rollups as r (minute, queue, lane, worker, status, duration_bucket, wait_bucket, project, count, duration_ms, wait_ms)
    select minute, queue, lane, coalesce(worker, '00000000-0000-0000-0000-000000000000'), status, duration_bucket, wait_bucket, min(project),
        sum(count), sum(duration_ms), sum(wait_ms)
    from gone group by 1, 2, 3, 4, 5, 6, 7 order by 1, 2, 3, 4, 5, 6, 7
    on conflict (minute, queue, lane, worker, status, duration_bucket, wait_bucket) do update set
        count = r.count + excluded.count, duration_ms = r.duration_ms + excluded.duration_ms, wait_ms = r.wait_ms + excluded.wait_ms
), served as (
    insert into taskforge.worker_tallies as t (worker, status, project, count)
    select w.id, g.status, min(g.project), sum(g.count) from gone g join taskforge.workers w on w.incarnation = g.worker
    group by 1, 2 order by 1, 2
    on conflict (worker, status) do update set count = t.count + excluded.count
)
select count(*) from gone
