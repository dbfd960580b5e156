-- The last migration that was applied.
select coalesce(max(number), 0) from taskforge.migrations
