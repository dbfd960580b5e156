-- Which of these jobs are stored. $1 ids
select id from taskforge.jobs where id = any ($1::uuid[])
