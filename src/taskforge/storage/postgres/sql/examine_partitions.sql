-- Whether the partition of tomorrow's jobs is there.
select to_regclass('taskforge.jobs_' || to_char((now() at time zone 'UTC') + interval '1 day', 'YYYYMMDD')) is not null
