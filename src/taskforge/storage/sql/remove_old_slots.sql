-- Remove what slots did long ago. $1 before this time · $2 limit
delete from taskforge.slots where (schedule, at) in (
    select schedule, at from taskforge.slots where fired_at < $1 limit $2
) returning schedule
