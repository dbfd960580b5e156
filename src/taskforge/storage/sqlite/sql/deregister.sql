-- The lease ends now, or ended before; the row stays for history. Once only. ?1 now · ?2 incarnation
update workers set lease_until = min(lease_until, ?1), left_at = ?1, updated_at = ?1 where incarnation = ?2 and left_at is null returning project, id
