-- How many jobs of a lane are placed on whom. ?1 project · ?2 lane
select r.key, count(*) from ready r where r.project = ?1 and r.lane = ?2 and r.key > 0 group by r.key
