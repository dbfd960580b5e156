-- ?1 id · ?2 project · ?3 name · ?4 description · ?5 priority · ?6 settings · ?7 active · ?8 now ·
-- ?9 the version of the project's catalog
insert into queues (id, project, name, description, priority, settings, is_active, created_at, updated_at, stamp)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
returning number
