-- Hours and days that have been summed up. $1 the step · $2 scopes · $3 starts
delete from taskforge.rollups_due d using unnest($2::int[], $3::int[]) as a (scope, start)
where d.scope = a.scope and d.step = $1 and d.start = a.start
