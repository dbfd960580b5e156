-- What was counted in a minute; no row if another minute has begun. $1 project · $2 minute
select jobs, bytes from taskforge.quota_usage where project = $1 and since = $2
