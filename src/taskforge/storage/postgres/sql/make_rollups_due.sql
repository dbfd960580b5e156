-- Hours and days that are to be summed up. $1 scopes · $2 steps · $3 starts · $4 projects
insert into taskforge.rollups_due (scope, step, start, project)
select distinct * from unnest($1::int[], $2::smallint[], $3::int[], $4::int[])
on conflict do nothing
