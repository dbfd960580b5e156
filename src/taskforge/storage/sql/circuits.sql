-- The circuits of a project, in the order in which they were made. $1 project · $2 behind this
-- number · $3 most · $4 only those in this mode; '': all
-- include: circuits
where c.project = $1 and c.number > $2 and q.deleted_at is null and ($4 = '' or c.mode = $4) order by c.number limit $3
