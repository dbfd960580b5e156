-- From here on so much is added to the numbers of transactions. ADDED how much
alter table taskforge.outbox alter column xact set default pg_current_xact_id()::text::bigint + ADDED;
alter table taskforge.audit alter column xact set default pg_current_xact_id()::text::bigint + ADDED
