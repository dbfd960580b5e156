-- The alert rules that were not looked at for longest. $1 that are due by this time · $2 limit
select number, id, project, name, kind, queue_id, queue, threshold, window_seconds,
    repeat_seconds, is_paused, silenced_until, is_firing, since, value, detail, told_at, checked_at,
    version, created_at, updated_at
from taskforge.alert_rules where check_at <= $1 order by check_at limit $2
