-- Up to which minute jobs that arrived are counted.
select arrivals_until from taskforge.horizons
