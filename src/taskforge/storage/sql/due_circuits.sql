-- Circuits that time alone changes, the longest due first. $1 now · $2 most
-- include: circuits
where c.due_at <= $1 order by c.due_at limit $2
