-- Ready jobs that some worker skipped, and how long ago their arguments first fitted no handler. $1
-- limit · $2 now (tests) · $3 behind this fence
select job, fence, project, lane, skipped,
    date_part('epoch', coalesce($2::timestamptz, statement_timestamp()) - misfit_at)::float8 as misfit_seconds
from taskforge.ready where skipped is not null and fence > $3 order by fence limit $1
