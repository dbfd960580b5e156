-- Who runs these executions, in which lane, whether they were asked to stop, and how long ago their
-- arguments first fitted no handler. $1 fences · $2 now (tests)
select fence, worker, lane, key, cancel_requested,
    date_part('epoch', coalesce($2::timestamptz, statement_timestamp()) - misfit_at)::float8 as misfit_seconds
from taskforge.running where fence = any ($1::uuid[])
