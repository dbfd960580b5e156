-- Which cluster, database and schema these are: not the same after a restore from a dump, but so
-- on a replica. $1 schema
select format('%s/%s/%s', (select system_identifier from pg_control_system()), d.oid, n.oid)
from pg_database d cross join pg_namespace n
where d.datname = current_database() and n.nspname = $1
