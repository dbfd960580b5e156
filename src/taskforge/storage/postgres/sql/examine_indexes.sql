-- Indexes that a broken build left behind. $1 schema
select c.oid::regclass::text as name from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and not i.indisvalid and c.relkind = 'i'
