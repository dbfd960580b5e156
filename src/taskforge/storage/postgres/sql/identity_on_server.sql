-- As store_identity.sql, for a role that may not ask which cluster this is. $1 schema
select format('/%s/%s', d.oid, n.oid) from pg_database d cross join pg_namespace n
where d.datname = current_database() and n.nspname = $1
