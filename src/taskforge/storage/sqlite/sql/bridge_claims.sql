-- Timeouts and heartbeats of what runs are moved by a silence, and by what the wall's clock was
-- stepped. What was claimed meanwhile was silent for that much less; what was claimed in the future
-- was so before the clock was set back. Time that began to run after the step, with a claim, a
-- start or a heartbeat, is not moved by it.
-- ?1 now · ?2 silence · ?3 step · ?4 the last look by the clock after the step, ?5 when anybody was
-- last seen, by the one before it
update running set
    timeout_at = timeout_at + silence + case when timed_from > ?4 and timed_from <= ?1 then 0 else ?3 end,
    beat_by = beat_by + silence + case when beat_from > ?4 and beat_from <= ?1 then 0 else ?3 end
from (
    select fence as moved_fence,
        case when claimed_at <= ?5 or claimed_at > ?1 or ?2 < 0 then ?2 else min(?2, ?1 - claimed_at) end as silence,
        timeout_at - cast(round(timeout_seconds * 1000000) as integer) as timed_from,
        beat_by - cast(round(beat_seconds * 1000000) as integer) as beat_from
    from running
) moved
where fence = moved_fence
