-- The transaction behind which those of this cluster go on, and the number that it would have here.
select greatest(h.pruned_xact, (select max(xact) from taskforge.outbox), (select max(xact) from taskforge.audit),
        (select max(last_xact) from taskforge.audit_seals)) as last,
    pg_current_xact_id()::text::bigint as here
from taskforge.horizons h
