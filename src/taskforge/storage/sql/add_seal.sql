-- The next seal of the audit log; touches nothing if another server was first. $1 number · $2 xact
-- of its last entry · $3 number of its last entry · $4 entries · $5 digest · $6 hash of the seal
-- before · $7 newest pruned seal · $8 id of its key · $9 hash · $10 hash by the key before · $11 now
insert into taskforge.audit_seals (number, last_xact, last_number, entries, digest, previous, pruned_to, key, hash, handover, at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (number) do nothing
