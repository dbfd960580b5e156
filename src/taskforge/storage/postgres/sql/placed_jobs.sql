-- How many jobs of these lanes are placed on whom. $1 project · $2 lanes
select r.lane, r.key, count(*) as jobs from taskforge.ready r
where r.project = $1 and r.lane = any ($2::int[]) and r.key is not null
group by r.lane, r.key
