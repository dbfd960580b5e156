-- The age of the oldest transaction that holds a snapshot, or was prepared and never ended, whose it
-- is and what ends it; nulls if there is none.
select max(age) as age, (array_agg(what order by age desc))[1] as what, (array_agg(next order by age desc))[1] as next
from (
    select now() - xact_start as age, 'a transaction of backend ' || pid as what, 'select pg_terminate_backend(' || pid || ')' as next
    from pg_stat_activity where backend_xmin is not null and xact_start is not null and pid <> pg_backend_pid()
    union all
    select now() - prepared, 'the prepared transaction ' || gid, 'rollback prepared ' || quote_literal(gid) from pg_prepared_xacts
) held
