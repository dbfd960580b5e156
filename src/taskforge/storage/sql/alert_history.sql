-- What became of the alerts of a project, the newest first. $1 project · $2 before this number · $3
-- limit
select number, rule, name, at, news, value, detail, is_silent
from taskforge.alert_history where project = $1 and number < $2 order by number desc limit $3
