-- The beginning of `insert_plain` and `insert_alike` for jobs that carry notes: their entries go into the audit log with them, in the
-- same round trip. $version, $now and $entries (JSON) become the places of those values.
with noted as (
    insert into taskforge.audit (at, organization, project, actor, action, target, after, origin, request)
    select coalesce($now::timestamptz, now()), organization, project, actor, action, target, after::json, origin, request
    from json_to_recordset($entries::json) as x (organization int, project int, actor text, action text, target text, after text,
        origin text, request text)
    where (select version from taskforge.catalog) = $version
)
