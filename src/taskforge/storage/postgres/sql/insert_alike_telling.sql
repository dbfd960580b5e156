-- One job as by insert_alike.sql, with its values, which wakes whoever listens in the same round trip.
-- $13 channel · $14 where the work is
with
-- include: insert_alike
returning pg_notify($13, $14)
