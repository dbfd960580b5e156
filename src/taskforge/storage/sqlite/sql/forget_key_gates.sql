-- Rates that nobody used for so long are full again, which is as good as no row; one that owes
-- something later, by what it owes. ?1 queue · ?2 used last before this · ?3 units a second
delete from key_gates where queue = ?1 and refreshed_at < ?2 and (tokens >= 0 or refreshed_at < ?2 + tokens / ?3)
