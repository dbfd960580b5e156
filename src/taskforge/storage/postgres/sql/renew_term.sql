-- The leader says that it is there. As hold_term.sql, it holds nobody up for longer than half a
-- lease. $1 term · $2 node
update taskforge.leadership set beat = beat + 1 where one = 1 and term = $1 and node = $2
returning term, set_config('idle_in_transaction_session_timeout', (500 * lease_seconds)::int::text, true)
