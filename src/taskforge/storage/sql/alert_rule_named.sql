-- An alert rule by its name. $1 project · $2 name
select number, id, project, name, kind, queue_id, queue, threshold, window_seconds,
    repeat_seconds, is_paused, silenced_until, is_firing, since, value, detail, told_at, checked_at,
    version, created_at, updated_at
from taskforge.alert_rules where project = $1 and name = $2
