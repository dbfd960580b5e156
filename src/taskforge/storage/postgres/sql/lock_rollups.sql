-- One process folds at a time: whoever does not get the lock leaves it to the one that has it.
-- $1 the schema
select pg_try_advisory_xact_lock(hashtext($1), hashtext('rollups'))
