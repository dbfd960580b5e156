-- Tables with many dead rows. $1 schema · $2 so many at least · $3 share of all rows
select relname, n_dead_tup as dead, n_live_tup as live from pg_stat_user_tables
where schemaname = $1 and n_dead_tup > $2 and n_dead_tup > $3 * (n_live_tup + n_dead_tup) order by n_dead_tup desc limit 5
