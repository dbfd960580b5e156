-- The lanes that have been doubted longest, and whether anything is in them. Figures that are not
-- folded yet count, too: they are told by its queue and type. ?1 doubted before this time · ?2 limit
with given as materialized (
    select number, project from lanes where doubted_at is not null and doubted_at < ?1 order by doubted_at limit ?2
), held as materialized (
    select lane from waiting where lane in (select number from given)
    union select lane from running where lane in (select number from given)
    union select lane from rollup_deltas where lane in (select number from given)
)
select g.number, g.number in (select lane from held)
    or exists (select 1 from ready r where r.project = g.project and r.lane = g.number)
from given g
