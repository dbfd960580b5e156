-- The cell of a minute. ?1 scope · ?2 minute
select cell from rollups where scope = ?1 and step = 0 and start = ?2
