-- Live queues of these projects by their name, and by their id. $1 projects · $2 name · $3 id
select q.* from unnest($1::int[]) as p (number)
cross join lateral (
    select number, id, project, name, description, priority, settings::text as settings, is_active, version, created_at, updated_at, deleted_at
    from taskforge.queues
    where queues.project = p.number and queues.name = $2 and queues.deleted_at is null limit 1
) q
union all
select number, id, project, name, description, priority, settings::text, is_active, version, created_at, updated_at, deleted_at
from taskforge.queues where id = $3 and project = any ($1::int[]) and deleted_at is null and name <> $2
