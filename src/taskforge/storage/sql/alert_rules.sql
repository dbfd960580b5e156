-- The alert rules of a project, in the order in which they were made. $1 project · $2 behind this
-- number · $3 limit
select number, id, project, name, kind, queue_id, queue, threshold, window_seconds,
    repeat_seconds, is_paused, silenced_until, is_firing, since, value, detail, told_at, checked_at,
    version, created_at, updated_at
from taskforge.alert_rules where project = $1 and number > $2 order by number limit $3
