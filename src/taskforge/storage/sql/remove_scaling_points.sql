-- Remove the series of a scaling policy that is removed. $1 queue
delete from taskforge.scaling_points where queue = $1
