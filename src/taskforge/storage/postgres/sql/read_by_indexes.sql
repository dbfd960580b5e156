-- As usual: places are better read by their indexes, whatever the planner thinks of their size.
set local enable_seqscan = off
