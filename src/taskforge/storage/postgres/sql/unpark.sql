-- Some worker is new: what waits for one whose handler its arguments fit is offered to it, slice by
-- slice, and then it is new no more. Rows that another slice holds are on their way.
-- $1 limit · $2 now (tests) · $3 incarnation; null: any that is new · returns how many were
-- offered, and nothing when nobody is new
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
),
newcomer as materialized (
    select incarnation, project, types from taskforge.workers
    where is_new and lease_until > (select now from clock) and ($3::uuid is null or incarnation = $3)
    order by incarnation limit 1 for no key update skip locked
),
parked as materialized (
    select w.fence
    from newcomer n
    join taskforge.lanes l on l.project = n.project and (n.types is null or l.job_type = any (n.types))
    cross join lateral (
        select fence from taskforge.waiting
        where lane = l.number and skipped is not null and due > (select now from clock)
        order by due limit $1 for update skip locked
    ) w
    limit $1
),
offered as (
    update taskforge.waiting set due = (select now from clock) where fence = any (array(select fence from parked)) returning fence
),
served as (
    update taskforge.workers set is_new = false
    where incarnation = (select incarnation from newcomer) and (select count(*) from parked) < $1
)
select (select count(*) from offered) as offered from newcomer
