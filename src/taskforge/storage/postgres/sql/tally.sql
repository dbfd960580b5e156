-- A delta to the number of finished jobs. $1 project · $2 queue · $3 status · $4 count
insert into taskforge.tally_deltas (project, queue, status, count) values ($1, $2, $3, $4)
