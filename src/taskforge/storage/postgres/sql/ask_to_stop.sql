-- Who asked first gave the reason. $1 fence · $2 reason
update taskforge.running set cancel_requested = true, cancel_reason = coalesce(cancel_reason, $2) where fence = $1
