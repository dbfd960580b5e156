-- The numbers of claims whose jobs live on. ?1 fences, one behind the other · ?2 a list as long
select r.fence, r.project, r.attempt, r.max_attempts, r.crashes, r.deadline, r.skipped, r.misfit_at, r.key
from json_each(?2) i cross join running r on r.fence = substr(?1, i.key * 16 + 1, 16)
