-- Remove what became of scaling policies long ago. $1 before this time · $2 limit
delete from taskforge.scaling_history where number in (
    select number from taskforge.scaling_history where at < $1 order by at limit $2
) returning number
