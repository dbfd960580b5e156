-- Waiting for whoever migrates is the point, so the usual timeouts must not cut it short.
set local lock_timeout = '60s'; set local statement_timeout = '10min'
