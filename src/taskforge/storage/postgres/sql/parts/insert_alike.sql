-- The jobs of insert_alike.sql, with its values.
facts as (
    insert into taskforge.jobs (id, project, queue, job_type, priority, max_attempts, payload, requires)
    select ($1::uuid[])[x.position], $7, $8, $9, $10, $12, x.payload::json, $11
    from string_to_table($3::text, E'\x1e') with ordinality as x (payload, position)
    where (select catalog_version from taskforge.projects where number = $7) = $4
)
insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn)
select x.fence, x.job, $7, $6, 0, $12, 0, false, c.now + x.position
from unnest($1::uuid[], $2::uuid[]) with ordinality as x (job, fence, position)
cross join (
    select (date_part('epoch', coalesce($5::timestamptz, clock_timestamp())) * 1e6::float8)::bigint as now offset 0
) c
where (select catalog_version from taskforge.projects where number = $7) = $4
