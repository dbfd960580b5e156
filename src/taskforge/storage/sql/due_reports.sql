-- The webhooks that are to be sent a report, the longest first. $1 by this time · $2 limit
select w.number, w.project, p.name, w.report_seconds, w.waiting
from taskforge.webhooks w join taskforge.projects p on p.number = w.project
where w.report_at <= $1 order by w.report_at limit $2
