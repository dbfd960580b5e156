-- An hour or a day that has been summed up. ?1 scope · ?2 step · ?3 start
delete from rollups_due where scope = ?1 and step = ?2 and start = ?3
