-- The series of a scaling policy: the last point of every so many seconds. $1 queue · $2 from this
-- second · $3 before this one · $4 seconds between points
select second, desired, actual, coming, draining, length, utilization_percent
from taskforge.scaling_points
where queue = $1 and second in (
    select max(second) from taskforge.scaling_points
    where queue = $1 and second >= $2 and second < $3 group by second / $4
) order by second
