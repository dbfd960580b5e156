-- The partitions of one day. DAY: as in 20260131 · LOW and HIGH: the first ids of it and of the next
-- Attaching a ready table holds a weaker lock on the parent than creating a partition in place does.
create table taskforge.jobs_DAY (like taskforge.jobs including defaults including constraints);
alter table taskforge.jobs attach partition taskforge.jobs_DAY for values from ('LOW') to ('HIGH');
create table taskforge.finished_DAY (like taskforge.finished including defaults including constraints);
alter table taskforge.finished attach partition taskforge.finished_DAY for values from ('LOW') to ('HIGH');
create table taskforge.executions_DAY (like taskforge.executions including defaults including constraints);
alter table taskforge.executions attach partition taskforge.executions_DAY for values from ('LOW') to ('HIGH');
create table taskforge.logs_DAY (like taskforge.logs including defaults including constraints);
alter table taskforge.logs attach partition taskforge.logs_DAY for values from ('LOW') to ('HIGH');
create table taskforge.job_tags_DAY (like taskforge.job_tags including defaults including constraints);
alter table taskforge.job_tags attach partition taskforge.job_tags_DAY for values from ('LOW') to ('HIGH');
