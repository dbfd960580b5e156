-- The oldest hundred seals whose entries are still there, if they are old enough. $1 behind this
-- number · $2 made before this
select number, last_xact, last_number, entries, digest, previous, pruned_to, key, hash, handover, at
from taskforge.audit_seals
where number > $1 and at < $2
order by number
limit 100
