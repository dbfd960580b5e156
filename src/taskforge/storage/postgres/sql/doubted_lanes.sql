-- The lanes that have been doubted longest. $1 for how many seconds at least · $2 limit · $3 now (tests)
select number from taskforge.lanes
where doubted_at is not null and doubted_at < coalesce($3::timestamptz, statement_timestamp()) - make_interval(secs => $1)
order by doubted_at limit $2
