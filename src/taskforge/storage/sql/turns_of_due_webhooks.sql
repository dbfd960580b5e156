-- The same where they are many: of each organization the one that is due for longest, then of each
-- the second one, and so on. $1 now · $2 limit
select number, id, project, organization, name, url, failures, failing_since, held_until,
    delivered_at
from (
    select number, id, project, organization, name, url, failures, failing_since, held_until,
        delivered_at, due_at,
        row_number() over (partition by organization order by due_at) as place
    from taskforge.webhooks where due_at <= $1
) as ranked order by place, due_at limit $2
