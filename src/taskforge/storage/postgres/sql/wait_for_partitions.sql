-- Whoever waits for the lock of a table holds up all who want it later.
set local lock_timeout = '2s'
