-- DAY: as in 20260131
drop table taskforge.jobs_DAY;
drop table taskforge.finished_DAY;
drop table taskforge.executions_DAY;
drop table taskforge.logs_DAY;
drop table taskforge.job_tags_DAY;
