-- $1 a time before which jobs were pruned
update taskforge.horizons set pruned_before = greatest(pruned_before, $1)
