-- ?1 a time before which jobs were pruned
update horizons set pruned_before = max(coalesce(pruned_before, 0), ?1)
