-- One process migrates, the others wait for it. $1 lock
select pg_advisory_xact_lock($1)
