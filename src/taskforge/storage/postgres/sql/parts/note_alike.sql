-- The audit entries of jobs that are inserted alike, with the values of insert_alike.sql, and $13
-- entries (JSON).
noted as (
    insert into taskforge.audit (at, organization, project, actor, action, target, after, origin, request)
    select coalesce($5::timestamptz, now()), organization, project, actor, action, target, after::json, origin, request
    from json_to_recordset($13::json) as x (organization int, project int, actor text, action text, target text, after text,
        origin text, request text)
    where not exists (
        select from unnest(array[$7]::int[], array[$4]::bigint[]) as k (project, version)
        where k.version is distinct from (select catalog_version from taskforge.projects p where p.number = k.project)
    )
),
