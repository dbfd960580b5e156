-- Whoever ran jobs and was alive when somebody last looked gets the silence back, or a whole lease
-- from now when it was longer than half of one. A clock that was set back (only a test's can be):
-- leases end a lease from now, and those that were over stay so. Registrations are times of the
-- wall's clock, which may have been set back since: those in the future were before the silence.
-- ?1 when anybody was last seen · ?2 now, both by the clock that leases go by · ?3 now · ?4
-- incarnation that asks, or null
update workers set
    lease_until = case
        when lease_until <= ?1 then min(lease_until, ?2)
        when ?2 < ?1 or ?2 - max(?1, case when registered_at <= ?3 then registered_at - ?3 + ?2 else ?1 end) > cast(lease_seconds * 500000 as integer)
            then ?2 + cast(lease_seconds * 1000000 as integer)
        else lease_until + ?2 - max(?1, case when registered_at <= ?3 then registered_at - ?3 + ?2 else ?1 end)
    end,
    heartbeat_at = min(heartbeat_at, ?3)
where left_at is null and lease_until > min(?1, ?2)
  and (?2 < ?1 or incarnation = ?4 or incarnation in (select worker from running))
returning lease_until > ?2
