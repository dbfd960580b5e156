-- The next hundred seals of the audit log. $1 behind this number
select number, last_xact, last_number, entries, digest, previous, pruned_to, key, hash, handover, at
from taskforge.audit_seals
where number > $1
order by number
limit 100
