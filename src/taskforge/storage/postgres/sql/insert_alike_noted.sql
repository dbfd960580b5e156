-- Jobs as by insert_alike.sql, with its values, that carry notes: their entries go into the audit
-- log with them, in the same round trip. $13 entries (JSON)
with
-- include: note_alike
-- include: insert_alike
