-- The lease ends now, or ended before; the row stays for history. Once only. ?1 now · ?2
-- incarnation · ?3 whether it died ·
-- ?4 projects, of one of which it is; null: of any · ?5 now by the clock that leases go by
update workers set lease_until = min(lease_until, ?5), left_at = ?1, died_at = case when ?3 then ?1 end, updated_at = ?1
where incarnation = ?2 and left_at is null and (?4 is null or project in (select value from json_each(?4)))
returning project, id
