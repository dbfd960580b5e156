-- A worker serves a queue, or serves it otherwise than before. $1 queue · $2 worker · $3 project ·
-- $4 weight · $5 is active · $6 now (tests)
insert into taskforge.assignments (queue, worker, project, weight, is_active, created_at, updated_at)
select $1, $2, $3, $4, $5, c.now, c.now from (select coalesce($6::timestamptz, statement_timestamp()) as now) c
on conflict (queue, worker) do update set weight = excluded.weight, is_active = excluded.is_active, updated_at = excluded.updated_at
