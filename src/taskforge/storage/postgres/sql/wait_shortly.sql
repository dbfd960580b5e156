-- A table's lock is waited for in short turns; queues.py tries again. Until wait_as_usual.sql, or
-- the transaction's end.
set local lock_timeout = '50ms'
