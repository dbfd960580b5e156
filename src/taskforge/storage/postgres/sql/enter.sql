-- Append to the audit log. $1 entries as JSON · $2 now (tests)
insert into taskforge.audit (at, organization, project, actor, action, target, before, after, origin, request)
select coalesce($2::timestamptz, now()), organization, project, actor, action, target, before::json, after::json, origin, request
from json_to_recordset($1::json) as x (organization int, project int, actor text, action text, target text, before text, after text,
    origin text, request text)
