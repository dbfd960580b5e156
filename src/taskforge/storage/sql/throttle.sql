-- How many tries there were in the present window. $1 key · $2 where the window begins
select count from taskforge.throttles where key = $1 and since > $2
