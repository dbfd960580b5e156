-- The queues of a stretch of a project's live queues, in the order of names, that fit a pattern; how
-- many were walked and where that ended, also where none fits. ?1 project · ?2 behind this name ·
-- ?3 from this name on · ?4 before this name · ?5 how many to walk · ?6 pattern, as of `glob` · ?7
-- limit
with walked as materialized (
    select number, name from queues
    where project = ?1 and deleted_at is null and name > ?2 and name >= ?3 and name < ?4
    order by name limit ?5
), fitting as materialized (
    select number from walked where name glob ?6 order by name limit ?7
)
select q.number, q.id, q.project, q.name, q.description, q.priority, q.settings, q.is_active, q.version, q.created_at, q.updated_at, q.deleted_at,
    w.walked, w.stopped
from (select count(*) as walked, max(name) as stopped from walked) w
left join (select queues.* from fitting cross join queues on queues.number = fitting.number) q on true
order by q.name
