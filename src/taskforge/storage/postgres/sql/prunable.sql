-- Finished jobs of one queue that ended before its cutoff. $1 queue · $2 ids below this · $3 cutoff · $4 limit
select job from taskforge.finished where queue = $1 and job < $2 and finished_at < $3 order by job limit $4
