-- Jobs that arrived are counted up to here. $1 the minute
update taskforge.horizons set arrivals_until = $1
