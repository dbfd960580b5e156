-- Deltas that were folded. ?1 the last one
delete from tally_deltas where number <= ?1
