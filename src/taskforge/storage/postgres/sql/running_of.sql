-- How many jobs a worker runs. $1 incarnation
select count(*) from taskforge.running where worker = $1
