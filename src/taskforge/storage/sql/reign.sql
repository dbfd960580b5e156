-- The reign as a candidate sees it, and how many servers are there besides it. $1 the candidate's
-- node · $2 since when a server must have been heard of
select l.term, l.beat, l.node, l.lease_seconds,
    (select count(*) from taskforge.nodes n where n.is_server and n.id <> $1 and n.seen_at > $2)
from taskforge.leadership l
