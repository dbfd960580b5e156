-- One job as by insert_alike_noted.sql, which wakes whoever listens as insert_alike_telling.sql does.
-- $13 channel · $14 where the work is · $15 entries (JSON)
with noted as (
    insert into taskforge.audit (at, organization, project, actor, action, target, after, origin, request)
    select coalesce($5::timestamptz, now()), organization, project, actor, action, target, after::json, origin, request
    from json_to_recordset($15::json) as x (organization int, project int, actor text, action text, target text, after text,
        origin text, request text)
    where not exists (
        select from unnest(array[$7]::int[], array[$4]::bigint[]) as k (project, version)
        where k.version is distinct from (select catalog_version from taskforge.projects p where p.number = k.project)
    )
),
-- include: insert_alike
returning pg_notify($13, $14)
