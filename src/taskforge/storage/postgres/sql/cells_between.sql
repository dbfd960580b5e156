-- Cells of these scopes. $1 scopes · $2 the step · $3 from this minute on · $4 up to this one
select scope, start, cell from taskforge.rollups where scope = any ($1::int[]) and step = $2 and start >= $3 and start < $4
