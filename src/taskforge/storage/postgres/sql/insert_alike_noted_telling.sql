-- One job as by insert_alike_noted.sql, which wakes whoever listens as insert_alike_telling.sql does.
-- $13 entries (JSON) · $14 channel · $15 where the work is
with
-- include: note_alike
-- include: insert_alike
returning pg_notify($14, $15)
