-- Survivors of a day move to the default partitions. DAY: as in 20260131
insert into taskforge.jobs select * from taskforge.jobs_DAY where id in (select id from survivors);
insert into taskforge.finished select * from taskforge.finished_DAY where job in (select id from survivors);
insert into taskforge.executions select * from taskforge.executions_DAY where job in (select id from survivors);
insert into taskforge.logs select * from taskforge.logs_DAY where job in (select id from survivors);
insert into taskforge.job_tags select * from taskforge.job_tags_DAY where job in (select id from survivors);
