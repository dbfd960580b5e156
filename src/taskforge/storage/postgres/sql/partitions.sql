-- The partitions of the jobs' facts; those of history have the same days.
select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = to_regclass('taskforge.jobs')::oid order by 1
