-- What the rates of fairness keys have left. The gates of their queues are held, so nobody else
-- writes them. $1 queues · $2 keys
select queue, key, tokens, refreshed_at from taskforge.key_gates where queue = any ($1::int[]) and key = any ($2::bigint[])
