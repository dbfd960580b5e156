-- How many circuits of a project are open, and the name of one. $1 project
select count(*), min(coalesce(c.dependency, c.job_type)) from taskforge.circuits c
where c.project = $1 and c.room is not null and c.mode = 'open'
