-- What payloads and results take as they are kept, job by job: they are read for it. Of those behind ?1 job · ?2 at most so many
select j.id, 0 as epoch, 0 as number, j.project,
    coalesce(length(cast(j.payload as blob)), 0)
        + coalesce((select length(cast(f.result as blob)) from finished f where f.queue = j.queue and f.job = j.id), 0) as bytes
from jobs j
where j.id > ?1 order by j.id limit ?2
