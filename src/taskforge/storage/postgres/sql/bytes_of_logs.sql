-- What lines of logs take as they are kept: compressed or not, and nothing of them is read for it. Of those
-- behind $1 job · $2 epoch · $3 number · $4 at most so many
select job, epoch, number, project,
    pg_column_size(message) + coalesce(pg_column_size(metadata), 0) as bytes
from taskforge.logs
where (job, epoch, number) > ($1, $2, $3) order by job, epoch, number limit $4
