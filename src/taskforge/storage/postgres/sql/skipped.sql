-- Ready jobs that some worker skipped, and how long ago their arguments first fitted no handler. $1 limit · $2 now (tests)
select job, fence, project, lane, skipped,
    date_part('epoch', coalesce($2::timestamptz, statement_timestamp()) - misfit_at)::float8 as misfit_seconds
from taskforge.ready where skipped is not null order by fence limit $1
