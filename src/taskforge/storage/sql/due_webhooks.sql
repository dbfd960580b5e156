-- The webhooks that something is due for, the longest first. $1 now · $2 limit
select number, id, project, organization, name, url, failures, failing_since, held_until, delivered_at
from taskforge.webhooks where due_at <= $1 order by due_at limit $2
