-- Forget the tries under a key. $1 key
delete from taskforge.throttles where key = $1
