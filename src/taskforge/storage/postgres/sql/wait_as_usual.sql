-- The end of wait_shortly.sql.
set local lock_timeout to default
