-- Of several processes one makes and drops partitions. $1 lock
select pg_try_advisory_xact_lock($1)
