-- Of these lanes those that hold jobs. ?1 lanes
select i.value from json_each(?1) i where exists (select 1 from ready r where r.lane = i.value)
