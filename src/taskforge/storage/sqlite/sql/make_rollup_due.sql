-- An hour or a day that is to be summed up. ?1 scope · ?2 step · ?3 start · ?4 project
insert into rollups_due (scope, step, start, project) values (?1, ?2, ?3, ?4) on conflict do nothing
