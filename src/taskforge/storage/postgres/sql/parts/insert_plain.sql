-- The jobs of insert_plain.sql, with its values.
given as materialized (
    select x.*
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[]) with ordinality
        as x (job, fence, lane, max_attempts, payload, position)
    where not exists (
        select from unnest($8::int[], $6::bigint[]) as k (project, version)
        where k.version is distinct from (select catalog_version from taskforge.projects p where p.number = k.project)
    )
),
known as materialized (
    select g.*, l.project, l.queue, l.job_type, l.priority, nullif(l.requires, '') as requires
    from given g join taskforge.lanes l on l.number = g.lane
),
facts as (
    insert into taskforge.jobs (id, project, queue, job_type, priority, max_attempts, payload, requires)
    select job, project, queue, job_type, priority, max_attempts, payload::json, requires from known
)
insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn)
select fence, job, project, lane, 0, max_attempts, 0, false, c.now + position
from known cross join (
    select (date_part('epoch', coalesce($7::timestamptz, clock_timestamp())) * 1e6::float8)::bigint as now offset 0
) c
