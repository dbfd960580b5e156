-- Wake whoever listens. A wake-up need not survive a crash, so its commit does not wait for the
-- disk. $1 channel · $2 where the work is
select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)
