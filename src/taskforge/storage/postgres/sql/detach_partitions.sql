-- DAY: as in 20260131
alter table taskforge.jobs detach partition taskforge.jobs_DAY;
alter table taskforge.finished detach partition taskforge.finished_DAY;
alter table taskforge.executions detach partition taskforge.executions_DAY;
alter table taskforge.logs detach partition taskforge.logs_DAY;
alter table taskforge.job_tags detach partition taskforge.job_tags_DAY;
