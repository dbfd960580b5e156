-- Jobs as by insert_plain.sql, with its values, that carry notes: their entries go into the audit log
-- with them, in the same round trip. $9 entries (JSON)
with noted as (
    insert into taskforge.audit (at, organization, project, actor, action, target, after, origin, request)
    select coalesce($7::timestamptz, now()), organization, project, actor, action, target, after::json, origin, request
    from json_to_recordset($9::json) as x (organization int, project int, actor text, action text, target text, after text,
        origin text, request text)
    where not exists (
        select from unnest($8::int[], $6::bigint[]) as k (project, version)
        where k.version is distinct from (select catalog_version from taskforge.projects p where p.number = k.project)
    )
),
-- include: insert_plain
