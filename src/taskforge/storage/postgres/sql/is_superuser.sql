-- Whether the connected user may do everything.
select usesuper from pg_user where usename = current_user
