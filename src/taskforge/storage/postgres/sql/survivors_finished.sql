-- Jobs of a day that finished after the cutoff. DAY: as in 20260131 · $1 cutoff · $2 most
select job from taskforge.finished_DAY where finished_at >= $1 limit $2
