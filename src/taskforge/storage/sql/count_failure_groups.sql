-- How many groups of failures a project has got since a moment. $1 project · $2 since
select count(*) as count from taskforge.failure_groups where project = $1 and first_seen >= $2
