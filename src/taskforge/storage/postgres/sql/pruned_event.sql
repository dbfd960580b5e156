-- The last event that is no longer kept.
select pruned_event from taskforge.horizons
