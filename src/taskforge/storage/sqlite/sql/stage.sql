-- Due jobs go to ready, in the order of their times; `unstage` follows. ?1 now · ?2 limit · ?3 jobs
-- whose arguments fitted no handler since then have waited long enough: whoever takes them next may
-- fail them
insert into ready (lane, turn, fence, project, attempt, max_attempts, crashes, keyed, until, misfit_at, key, skipped)
select lane, coalesce(turn, ?1 + row_number() over (order by due, fence)), fence, project, attempt, max_attempts, crashes, keyed, until, misfit_at, key,
    case when misfit_at > ?3 then skipped end
from (select * from waiting where due <= ?1 order by due, fence limit ?2)
