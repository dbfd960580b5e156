-- The queues of a stretch of a project's live queues, in the order of names, that fit a pattern; how
-- many were walked and where that ended, also where none fits. $1 project · $2 behind this name ·
-- $3 from this name on · $4 before this name · $5 how many to walk · $6 pattern, as of `like` · $7
-- limit
with walked as materialized (
    select number, name from taskforge.queues
    where project = $1 and deleted_at is null and name collate "C" > $2 and name collate "C" >= $3 and name collate "C" < $4
    order by name collate "C" limit $5
), fitting as (
    select number from walked where name like $6 order by name collate "C" limit $7
)
select w.walked, w.stopped, q.*
from (select count(*)::int as walked, max(name collate "C") as stopped from walked) w
left join (
    select one.* from fitting f
    cross join lateral (
        select number, id, project, name, description, priority, settings::text as settings, is_active, version, created_at, updated_at, deleted_at
        from taskforge.queues where queues.number = f.number limit 1
    ) one
) q on true
order by q.name collate "C"
