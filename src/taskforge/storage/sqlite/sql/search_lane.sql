-- The ready jobs of a lane. ?1 project · ?2 lane · ?3 most
select r.fence from ready r where r.project = ?1 and r.lane = ?2 limit ?3
