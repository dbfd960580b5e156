-- No index leads to what is read next. Until read_by_indexes.sql, or the transaction's end.
set local enable_seqscan = on
