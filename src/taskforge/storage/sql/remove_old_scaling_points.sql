-- Remove points of long ago. $1 before this second · $2 limit
delete from taskforge.scaling_points where (queue, second) in (
    select queue, second from taskforge.scaling_points where second < $1 order by second limit $2
) returning queue
