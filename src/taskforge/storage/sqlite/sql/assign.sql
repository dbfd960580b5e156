-- A worker serves a queue, or serves it otherwise than before. ?1 queue · ?2 worker · ?3 project ·
-- ?4 weight · ?5 is active · ?6 now
insert into assignments (queue, worker, project, weight, is_active, created_at, updated_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?6)
on conflict do update set weight = excluded.weight, is_active = excluded.is_active, updated_at = excluded.updated_at
