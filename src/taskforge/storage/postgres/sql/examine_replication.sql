-- Replication slots that nobody reads.
select array_agg(slot_name::text order by slot_name) from pg_replication_slots where not active
