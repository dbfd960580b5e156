-- Whoever takes it next may, though it would not before. ?1 fence
update ready set skipped = null where fence = ?1
