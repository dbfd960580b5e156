-- What payloads and results take as they are kept, job by job: compressed or not, and nothing of them is
-- read for it. Of those behind $1 job · $2 at most so many
select j.id, 0 as epoch, 0 as number, j.project,
    coalesce(pg_column_size(j.payload), 0)
        + coalesce((select pg_column_size(f.result) from taskforge.finished f where f.queue = j.queue and f.job = j.id), 0) as bytes
from taskforge.jobs j
where j.id > $1 order by j.id limit $2
