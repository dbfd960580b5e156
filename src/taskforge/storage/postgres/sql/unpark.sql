-- A worker has registered: what waits for one whose handler its arguments fit is offered to it. Rows that another registration holds are on
-- their way. $1 project · $2 its types · $3 now (tests)
update taskforge.waiting set due = coalesce($3::timestamptz, statement_timestamp())
where fence = any (array(
    select w.fence from taskforge.waiting w join taskforge.lanes l on l.number = w.lane
    where w.skipped is not null and w.due > coalesce($3::timestamptz, statement_timestamp()) and l.project = $1
      and ($2::text[] is null or l.job_type = any ($2::text[]))
    for update of w skip locked))
