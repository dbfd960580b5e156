-- What a look at a queue saw. $1 queue's id · $2 minute · $3 gauges as JSON
insert into taskforge.rollup_deltas (project, queue, minute, status, count, gauges)
select project, number, $2, 0, 0, $3 from taskforge.queues where id = $1
