-- Due jobs go to ready, in the order of their times; `unstage` follows. ?1 now · ?2 limit
insert into ready (lane, turn, fence, project, attempt, max_attempts, crashes, keyed, until)
select lane, ?1 + row_number() over (order by due, fence), fence, project, attempt, max_attempts, crashes, keyed, until
from (select * from waiting where due <= ?1 order by due, fence limit ?2)
