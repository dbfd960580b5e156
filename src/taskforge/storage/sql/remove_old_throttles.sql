-- Windows that began before this. $1 time
delete from taskforge.throttles where since < $1
