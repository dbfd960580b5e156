-- Move a schedule on from the slot that it was read with, unless it was changed or fired since. A
-- manual run moves nothing but the last job.
-- ?1 number · ?2 version · ?3 slot it was read with · ?4 next slot · ?5 when that is due · ?6 last
-- slot · ?7 last job · ?8 whether by hand
update schedules
set next_at = case when ?8 then next_at else ?4 end, due_at = case when ?8 then due_at else ?5 end,
    last_slot = coalesce(?6, last_slot), last_job = coalesce(?7, last_job)
where number = ?1 and version = ?2 and (?8 or next_at = ?3)
