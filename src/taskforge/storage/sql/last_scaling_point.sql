-- The last point of the series of a scaling policy before a second. $1 queue · $2 second
select second, desired, actual, coming, draining, length, utilization_percent
from taskforge.scaling_points where queue = $1 and second < $2 order by second desc limit 1
