-- Cells as they are now. $1 scopes · $2 steps · $3 starts · $4 projects · $5 cells
insert into taskforge.rollups (scope, step, start, project, cell)
select * from unnest($1::int[], $2::smallint[], $3::int[], $4::int[], $5::bytea[])
on conflict (scope, step, start) do update set cell = excluded.cell
