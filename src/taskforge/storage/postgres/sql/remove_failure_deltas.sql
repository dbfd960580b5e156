-- Failures that their groups count by now. $1 numbers of deltas
delete from taskforge.failure_deltas where number = any ($1::bigint[])
