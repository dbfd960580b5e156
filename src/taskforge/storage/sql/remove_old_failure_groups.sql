-- Forget groups in which nothing failed for long. $1 not since · $2 limit
delete from taskforge.failure_groups where number in (
    select number from taskforge.failure_groups where last_seen < $1 order by last_seen limit $2
) returning number
