-- Failures that their groups count by now. ?1 numbers of deltas, a list
delete from failure_deltas where number in (select value from json_each(?1))
