-- A point of the series of a scaling policy. $1 queue · $2 second since 1970 · $3 desired, $4 actual, $5
-- coming and $6 draining workers · $7 length of the queue · $8 utilization in percent
insert into taskforge.scaling_points (queue, second, desired, actual, coming, draining, length, utilization_percent)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (queue, second) do update set desired = excluded.desired, actual = excluded.actual,
    coming = excluded.coming, draining = excluded.draining, length = excluded.length,
    utilization_percent = excluded.utilization_percent
