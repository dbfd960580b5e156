-- Events after $1, in order. Only those whose transactions no unfinished one can precede: a late commit is never skipped. $2 limit
select number, project, topic, queue, jobs, at from taskforge.outbox
where number > $1 and transaction < pg_snapshot_xmin(pg_current_snapshot()) order by number limit $2
