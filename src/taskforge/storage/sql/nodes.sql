-- All nodes, in the order in which they joined.
select id, name, roles, address, host, pid, version, beat_seconds, joined_at, seen_at, upkeep
from taskforge.nodes order by joined_at, id
