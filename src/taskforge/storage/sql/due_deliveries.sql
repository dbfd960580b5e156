-- The deliveries of a webhook that are due, the longest first. $1 webhook · $2 now · $3 limit
-- include: delivery_columns
where webhook = $1 and due_at <= $2 order by due_at, number limit $3
