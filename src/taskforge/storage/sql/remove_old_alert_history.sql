-- Remove what became of alerts long ago. $1 before this time · $2 limit
delete from taskforge.alert_history where number in (
    select number from taskforge.alert_history where at < $1 order by at limit $2
) returning number
