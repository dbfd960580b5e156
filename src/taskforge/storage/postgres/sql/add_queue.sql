-- $1 id · $2 project · $3 name · $4 description · $5 priority · $6 settings · $7 is active · $8 now
-- (tests) · $9 the version of the project's catalog
insert into taskforge.queues (id, project, name, description, priority, settings, is_active, created_at, updated_at, stamp)
select $1, $2, $3, $4, $5, $6::jsonb, $7, c.now, c.now, $9 from (select coalesce($8::timestamptz, statement_timestamp()) as now) c
returning number
