-- Mark a queue deleted: its name is free again, its history stays. $1 queue · $2 now (tests) ·
-- $3 the version of the project's catalog
update taskforge.queues set deleted_at = c.now, updated_at = c.now, version = version + 1, stamp = $3
from (select coalesce($2::timestamptz, statement_timestamp()) as now) c where number = $1
