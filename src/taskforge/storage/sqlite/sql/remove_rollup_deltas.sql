-- Deltas that were folded. ?1 the last one
delete from rollup_deltas where number <= ?1
