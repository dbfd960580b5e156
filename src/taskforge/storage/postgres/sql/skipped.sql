-- Ready jobs that some worker skipped. $1 limit
select job, fence, project, lane, skipped from taskforge.ready where skipped is not null order by fence limit $1
