-- What outputs of executions take as they are kept: they are read for it. Of those
-- behind ?1 job · ?2 epoch · ?3 at most so many
select job, epoch, 0 as number, project,
    coalesce(length(cast(output as blob)), 0) as bytes
from executions
where (job, epoch) > (?1, ?2) order by job, epoch limit ?3
