-- Lanes by what they stand for, and whether upkeep doubts that they are used. $1 queues · $2 job types
-- · $3 priorities · $4 requirements
select l.* from unnest($1::int[], $2::text[], $3::smallint[], $4::text[]) as x (queue, job_type, priority, requires)
cross join lateral (
    select number, project, queue, job_type, priority, requires, doubted_at is not null as is_doubted from taskforge.lanes
    where lanes.queue = x.queue and lanes.job_type = x.job_type and lanes.priority = x.priority and lanes.requires = x.requires
    limit 1
) l
