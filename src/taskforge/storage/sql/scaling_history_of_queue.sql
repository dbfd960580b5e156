-- What became of the scaling policy of a queue, the newest first. $1 project · $2 the queue's id · $3
-- before this number · $4 limit
select number, name as queue, queue as queue_id, at, news, count, desired, reason, term, figures
from taskforge.scaling_history where project = $1 and queue = $2 and number < $3 order by number desc limit $4
