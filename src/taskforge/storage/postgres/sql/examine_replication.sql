-- Replication slots that nobody reads, or whose reader is so far behind that they hold up vacuum.
-- $1 how many transactions behind that is
select array_agg(slot_name::text order by slot_name) from pg_replication_slots
where not active or greatest(age(xmin), age(catalog_xmin)) > $1::int
