-- The same; survivors are moved in the meantime.
set local lock_timeout = '2s'; set local statement_timeout = '5min'
