-- The lanes of these queues that hold jobs, placed or not; a look at the head of each lane, whatever
-- else the project holds. $1 queues
select l.number from taskforge.lanes l
where l.queue = any ($1::int[])
  and coalesce(
    (select true from taskforge.ready r where r.project = l.project and r.lane = l.number and r.key is null limit 1),
    (select true from taskforge.ready r where r.project = l.project and r.lane = l.number and r.key is not null limit 1))
