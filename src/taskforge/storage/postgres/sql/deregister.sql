-- A worker leaves: its lease ends now. $1 incarnation · $2 now (tests)
update taskforge.workers set lease_until = least(lease_until, c.now), left_at = c.now, updated_at = c.now
from (select coalesce($2::timestamptz, statement_timestamp()) as now) c
where incarnation = $1
