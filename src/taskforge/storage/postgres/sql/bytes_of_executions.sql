-- What outputs of executions take as they are kept: compressed or not, and nothing of them is read for it. Of those
-- behind $1 job · $2 epoch · $3 at most so many
select job, epoch, 0 as number, project,
    coalesce(pg_column_size(output), 0) as bytes
from taskforge.executions
where (job, epoch) > ($1, $2) order by job, epoch limit $3
