-- ?1 id · ?2 project · ?3 name · ?4 description · ?5 priority · ?6 settings · ?7 active · ?8 now
insert into queues (id, project, name, description, priority, settings, is_active, created_at, updated_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
returning number
