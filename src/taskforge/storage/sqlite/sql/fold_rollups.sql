-- ?1 the last delta to fold
insert into rollups (minute, queue, lane, worker, status, duration_bucket, wait_bucket, project, count, duration_ms, wait_ms)
select minute, queue, lane, coalesce(worker, zeroblob(16)), status, duration_bucket, wait_bucket, project, sum(count), sum(duration_ms), sum(wait_ms)
from rollup_deltas where number <= ?1
group by minute, queue, lane, worker, status, duration_bucket, wait_bucket, project
on conflict do update set count = count + excluded.count, duration_ms = duration_ms + excluded.duration_ms, wait_ms = wait_ms + excluded.wait_ms
