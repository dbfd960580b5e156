-- The same of one rule. $1 project · $2 the rule's id · $3 before this number · $4 limit
select number, rule, name, at, news, value, detail, is_silent
from taskforge.alert_history where project = $1 and rule = $2 and number < $3
order by number desc limit $4
