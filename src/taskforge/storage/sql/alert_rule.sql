-- An alert rule. $1 id
select number, id, project, name, kind, queue_id, queue, threshold, window_seconds,
    repeat_seconds, is_paused, silenced_until, is_firing, since, value, detail, told_at, checked_at,
    version, created_at, updated_at
from taskforge.alert_rules where id = $1
