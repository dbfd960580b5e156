-- ?1 now · ?2 how many `stage` has moved
delete from waiting where fence in (select fence from waiting where due <= ?1 order by due, fence limit ?2)
returning project, lane, key, turn
