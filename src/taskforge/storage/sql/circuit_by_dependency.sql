-- The circuit of a dependency. $1 project · $2 its name
-- include: circuits
where c.project = $1 and c.dependency = $2
