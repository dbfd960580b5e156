-- Ready and waiting jobs in lanes of deleted queues. $1 limit
with lane as materialized (
    select l.project, l.number
    from taskforge.queues q cross join lateral (select project, number from taskforge.lanes where lanes.queue = q.number offset 0) l
    where q.deleted_at is not null
)
(select r.job, r.fence, r.project from lane l cross join lateral (
    (select job, fence, project from taskforge.ready
        where ready.project = l.project and ready.lane = l.number and ready.key is null limit $1)
    union all
    (select job, fence, project from taskforge.ready
        where ready.project = l.project and ready.lane = l.number and ready.key is not null limit $1)
    ) r limit $1)
union all
(select job, fence, project from taskforge.waiting where exists (select from lane) and lane = any (array(select number from lane)) limit $1)
limit $1
