-- A cell as it is now. ?1 scope · ?2 step · ?3 start · ?4 project · ?5 cell
insert into rollups (scope, step, start, project, cell) values (?1, ?2, ?3, ?4, ?5)
on conflict do update set cell = excluded.cell
