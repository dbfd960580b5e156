-- How many jobs of a queue are running. $1 queue
select count(*) from taskforge.running where queue = $1
