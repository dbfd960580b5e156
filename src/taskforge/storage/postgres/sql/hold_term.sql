-- The first step of a leader's write: nothing else is written once the term is over, and no other
-- term begins before this transaction ends. Should the leader stand still in it, PostgreSQL ends it
-- after half a lease, and its successor need not wait for longer. $1 term
update taskforge.leadership set writes = writes + 1 where one = 1 and term = $1
returning term, set_config('idle_in_transaction_session_timeout', (500 * lease_seconds)::int::text, true)
