-- Rates that nobody used for so long are full again, which is as good as no row. ?1 queue · ?2 used
-- last before this
delete from key_gates where queue = ?1 and refreshed_at < ?2
