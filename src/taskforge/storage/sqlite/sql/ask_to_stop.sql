-- Who asked first gave the reason. ?1 reason · ?2 fence
update running set cancel_requested = 1, cancel_reason = coalesce(cancel_reason, ?1) where fence = ?2
