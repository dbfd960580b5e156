-- Incarnations from one machine that have not left and had a lease within the last day, those first
-- whose lease is or would be over first. What runs is not looked at: it may be much. $1 project ·
-- $2 machine · $3 the incarnation that asks · $4 now (tests) · $5 limit
select incarnation, pid, pid_started from taskforge.workers
where project = $1 and machine = $2 and left_at is null and machine <> '' and pid is not null and incarnation <> $3
  and lease_until > coalesce($4::timestamptz, statement_timestamp()) - interval '1 day'
order by lease_until limit $5
