-- An edit of an alert rule, if it has the version that was read. $1 number · $2 that version · $3
-- name · $4 id and $5 name of its queue, or null · $6 threshold · $7 window and $8 repetition in seconds
-- · $9 whether it is paused · $10 until when it is silenced, or null · $11 when it is due, or null ·
-- $12 now · $13 whether it begins anew: else what it says stays
update taskforge.alert_rules set name = $3, queue_id = $4, queue = $5, threshold = $6,
    window_seconds = $7, repeat_seconds = $8, is_paused = $9, silenced_until = $10, check_at = $11,
    is_firing = case when $13 then false else is_firing end,
    since = case when $13 then null else since end, value = case when $13 then null else value end,
    detail = case when $13 then null else detail end,
    told_at = case when $13 then null else told_at end, version = version + 1, updated_at = $12
where number = $1 and version = $2
