-- A schedule; nothing if its project has one of this name. $1 id · $2 project · $3 name · $4
-- description · $5 timing and $6 job, JSON · $7 whether it is paused · $8 by whose code it is
-- declared, or null · $9 its next slot and $10 when that is due, or null · $11 now
insert into taskforge.schedules (id, project, name, description, timing, job, is_paused,
    declared_by, next_at, due_at, version, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, $11, $11)
on conflict (project, name) do nothing returning number
