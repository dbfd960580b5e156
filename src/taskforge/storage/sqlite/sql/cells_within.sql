-- The cells that make up an hour or a day. ?1 scope · ?2 start · ?3 the finer step · ?4 minutes of it
select cell from rollups where scope = ?1 and step = ?3 and start >= ?2 and start < ?2 + ?4
