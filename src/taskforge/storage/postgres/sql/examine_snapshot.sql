-- The age of the oldest transaction that holds a snapshot, and whose it is; nulls if there is none.
select max(now() - xact_start), (array_agg(pid order by xact_start))[1]
from pg_stat_activity where backend_xmin is not null and xact_start is not null and pid <> pg_backend_pid()
