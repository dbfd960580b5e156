-- What a look at a worker saw. $1 project · $2 worker's identity · $3 minute · $4 gauges as JSON
insert into taskforge.rollup_deltas (project, queue, worker, minute, status, count, gauges) values ($1, 0, $2, $3, 0, 0, $4)
