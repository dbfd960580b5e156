-- The last of the oldest deltas, and how many they are. ?1 limit
select max(number), count(*) from (select number from tally_deltas order by number limit ?1)
