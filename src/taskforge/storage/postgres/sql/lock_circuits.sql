-- Lock circuits: of these queues and job types, and with these numbers. $1 queues · $2 job types ·
-- $3 numbers · $4 now (tests)
select number, queue, job_type, dependency, settings::text as settings, state::text as state,
    date_part('epoch', coalesce($4::timestamptz, clock_timestamp()))::float8 as now
from taskforge.circuits
where number = any (array(
    select c.number from unnest($1::int[], $2::text[]) as p (queue, job_type)
    join taskforge.circuits c on c.queue = p.queue and c.job_type = p.job_type
) || $3::int[])
order by number for update
