-- A change in how many finished jobs a queue keeps. ?1 project · ?2 queue · ?3 status · ?4 count
insert into tally_deltas (project, queue, status, count) values (?, ?, ?, ?)
