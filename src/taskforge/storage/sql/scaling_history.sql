-- What became of the scaling policies of a project, the newest first. $1 project · $2 before this number ·
-- $3 limit
select number, name as queue, queue as queue_id, at, news, count, desired, reason, term, figures
from taskforge.scaling_history where project = $1 and number < $2 order by number desc limit $3
