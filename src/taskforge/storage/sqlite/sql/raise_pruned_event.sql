-- ?1 the last event that was removed
update horizons set pruned_event = max(pruned_event, ?1)
