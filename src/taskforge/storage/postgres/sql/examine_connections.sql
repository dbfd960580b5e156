-- How many connections the server has, and may have.
select (select count(*) from pg_stat_activity where backend_type = 'client backend')::int, current_setting('max_connections')::int
