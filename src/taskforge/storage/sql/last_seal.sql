-- The newest seal of the audit log.
select number, last_xact, last_number, entries, digest, previous, pruned_to, key, hash, handover, at
from taskforge.audit_seals
order by number desc
limit 1
