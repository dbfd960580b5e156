-- What was counted for a project that is about to be removed. $1 project
delete from taskforge.quota_usage where project = $1
