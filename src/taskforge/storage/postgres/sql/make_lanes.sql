-- Lanes, unless they are already there; returns those that are new. $1 queues · $2 job types · $3
-- priorities · $4 requirements
insert into taskforge.lanes (project, queue, job_type, priority, requires)
select q.project, x.* from unnest($1::int[], $2::text[], $3::smallint[], $4::text[]) as x (queue,
    job_type, priority, requires)
join taskforge.queues q on q.number = x.queue
order by 2, 3, 4, 5
on conflict do nothing
returning number, project, queue, job_type, priority, requires, false as is_doubted
