-- An alert rule, due at once; nothing if its project has one of this name. $1 id · $2 project · $3
-- name · $4 kind · $5 id and $6 name of its queue, or null · $7 threshold · $8 window and $9 repetition
-- in seconds · $10 whether it is paused · $11 when it is due, or null · $12 now
insert into taskforge.alert_rules (id, project, name, kind, queue_id, queue, threshold,
    window_seconds, repeat_seconds, is_paused, check_at, is_firing, version, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, false, 1, $12, $12)
on conflict (project, name) do nothing returning number
