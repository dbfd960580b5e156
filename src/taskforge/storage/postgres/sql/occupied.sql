-- Of these lanes those that hold jobs. $1 lanes
select l.number from unnest($1::int[]) as l (number) where exists (select from taskforge.ready r where r.lane = l.number)
