-- $1 fence
update taskforge.running set cancel_requested = true where fence = $1
