-- What lines of logs take as they are kept: they are read for it. Of those
-- behind ?1 job · ?2 epoch · ?3 number · ?4 at most so many
select job, epoch, number, project,
    length(cast(message as blob)) + coalesce(length(cast(metadata as blob)), 0) as bytes
from logs
where (job, epoch, number) > (?1, ?2, ?3) order by job, epoch, number limit ?4
