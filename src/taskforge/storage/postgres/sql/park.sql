-- Jobs whose arguments fit no worker that is there go out of the way of claims, unless they were
-- given another chance meanwhile. $1 fences · $2 for how many seconds · $3 now (tests)
with gone as (
    delete from taskforge.ready where fence = any ($1::uuid[]) and skipped is not null and misfit_at is not null returning *
)
insert into taskforge.waiting (fence, job, project, lane, attempt, max_attempts, crashes, keyed, due, until, misfit_at, skipped, key, turn)
select g.fence, job, project, lane, attempt, max_attempts, crashes, keyed,
    coalesce($3::timestamptz, statement_timestamp()) + make_interval(secs => p.seconds), until, misfit_at, skipped, key, case when key is not null then turn end
from gone g join unnest($1::uuid[], $2::float8[]) as p (fence, seconds) on p.fence = g.fence
returning fence
