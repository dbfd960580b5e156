-- The next entries of the audit log in the order in which they are sealed, below the horizon:
-- nothing can come to lie between them. SQLite's commits are in order anyway. $1, $2 xact and
-- number of the last sealed entry · $3 limit
select xact, number, at, organization, organization_number, project, actor, action, target, before,
    after, origin, request
from taskforge.audit
where (xact, number) > ($1, $2) and xact < (
    select added_to_xact + pg_snapshot_xmin(pg_current_snapshot())::text::bigint from taskforge.horizons)
order by xact, number
limit $3
