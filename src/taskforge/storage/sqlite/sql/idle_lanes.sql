-- The lanes of a stretch, and whether each was kept long ago and holds nothing that is ready. ?1
-- behind this number · ?2 how many · ?3 kept before this time
select l.number, l.doubted_at is null and l.kept_at < ?3
    and not exists (select 1 from ready r where r.project = l.project and r.lane = l.number)
from lanes l where l.number > ?1 order by l.number limit ?2
