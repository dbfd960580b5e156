-- $1 jobs
insert into survivors select unnest($1::uuid[])
