-- Timeouts and heartbeats of what runs are moved by a silence, and by what the wall's clock was stepped. What was claimed meanwhile was silent
-- for that much less; what was claimed in the future was so before the clock was set back.
-- ?1 now · ?2 silence · ?3 step · ?4 the last look by the clock after the step, ?5 when anybody was last seen, by the one before it
update running set timeout_at = timeout_at + moved.by, beat_by = beat_by + moved.by
from (
    select fence as moved_fence, case when claimed_at <= ?4 or claimed_at > ?1 then ?3 else 0 end
        + case when claimed_at <= ?5 or claimed_at > ?1 or ?2 < 0 then ?2 else min(?2, ?1 - claimed_at) end as by
    from running
) moved
where fence = moved_fence
