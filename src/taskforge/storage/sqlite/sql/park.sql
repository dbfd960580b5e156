-- Jobs whose arguments fit no worker that is there go out of the way of claims; `leave_ready`
-- follows.
-- ?1 fences, one behind the other · ?2 for each when it is due
insert into waiting (fence, project, lane, attempt, max_attempts, crashes, keyed, due, until, misfit_at, key, turn, skipped)
select p.fence, p.project, p.lane, p.attempt, p.max_attempts, p.crashes, p.keyed, i.value, p.until, p.misfit_at, p.key, case when p.key > 0 then p.turn end, p.skipped
from json_each(?2) i cross join ready p on p.fence = substr(?1, i.key * 16 + 1, 16)
