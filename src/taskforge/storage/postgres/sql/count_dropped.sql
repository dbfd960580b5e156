-- How many jobs go with a day, by queue and status. DAY: as in 20260131 · $1 cutoff
select project, queue, status, count(*) as count from taskforge.finished_DAY where finished_at < $1 group by 1, 2, 3
