-- The time before which jobs may have been pruned.
select pruned_before from taskforge.horizons
