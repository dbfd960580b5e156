-- The workers of a stretch of a project's, in the order of names, as workers.sql shows them, that fit
-- a pattern; how many rows were walked and where that ended, also where none fits. Former lives are
-- walked too. ?1 project · ?2 behind this name · ?3 and this incarnation of it · ?4 from this name on
-- · ?5 before this name · ?6 how many to walk · ?7 pattern, as of `glob` · ?8 limit · ?9 now by the
-- clock that leases go by
with walked as materialized (
    select w.incarnation, w.id, w.project, w.name, w.lease_until from workers w
    where w.project = ?1 and (w.name, w.incarnation) > (?2, ?3) and w.name >= ?4 and w.name < ?5
    order by w.name, w.incarnation limit ?6
), fitting as materialized (
    select w.incarnation from walked w
    where w.name glob ?7 and (w.lease_until > ?9 or w.incarnation = (
            select n.incarnation from workers n
            where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
    order by w.name, w.incarnation limit ?8
)
select (select count(*) from walked) as walked,
    (select name from walked order by name desc, incarnation desc limit 1) as stopped,
    (select incarnation from walked order by name desc, incarnation desc limit 1) as stopped_at,
    q.*, (select count(*) from running r where r.worker = q.incarnation) as active
from (select 1) x
left join (select workers.* from fitting cross join workers on workers.incarnation = fitting.incarnation) q on true
order by q.name, q.incarnation
