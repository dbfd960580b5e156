-- The beginning of `insert_plain` and `insert_alike` for jobs that carry notes: their entries go
-- into the audit log with them, in the same round trip. $projects, $versions, $now and $entries
-- (JSON) become the places of those values.
with noted as (
    insert into taskforge.audit (at, organization, project, actor, action, target, after, origin, request)
    select coalesce($now::timestamptz, now()), organization, project, actor, action, target, after::json, origin, request
    from json_to_recordset($entries::json) as x (organization int, project int, actor text, action text, target text, after text,
        origin text, request text)
    where not exists (
        select from unnest($projects, $versions) as k (project, version)
        where k.version is distinct from (select catalog_version from taskforge.projects p where p.number = k.project)
    )
)
