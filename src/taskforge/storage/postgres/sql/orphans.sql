-- Ready and waiting jobs in lanes of deleted queues. $1 lanes · $2 limit
(select job, fence, project from taskforge.ready where lane = any ($1::int[]) limit $2)
union all
(select job, fence, project from taskforge.waiting where lane = any ($1::int[]) limit $2)
limit $2
