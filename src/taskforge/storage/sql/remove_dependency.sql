-- $1 project · $2 name
delete from taskforge.circuits where project = $1 and dependency = $2
