-- The quotas of a project that is about to be removed. $1 project
delete from taskforge.quotas where project = $1
