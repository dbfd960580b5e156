-- The names of what job types of a project depend on. $1 project
select dependency as name from taskforge.circuits where project = $1 and dependency is not null order by dependency
