-- $1 queue · $2 worker
delete from taskforge.assignments where queue = $1 and worker = $2
