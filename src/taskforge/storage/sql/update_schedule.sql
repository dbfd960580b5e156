-- An edit of the schedule, if it has the version that was read. $1 number · $2 that version · $3
-- name · $4 description · $5 timing and $6 job, JSON · $7 whether it is paused · $8 by whose code
-- it is declared, or null · $9 its next slot and $10 when that is due, or null · $11 now · $12
-- whether the edit moves these two: else the leader may have moved them on meanwhile
update taskforge.schedules set name = $3, description = $4, timing = $5, job = $6, is_paused = $7,
    declared_by = $8, next_at = case when $12 then $9 else next_at end,
    due_at = case when $12 then $10 else due_at end, version = version + 1, updated_at = $11
where number = $1 and version = $2
