-- Some worker is new: what waits for one whose handler its arguments fit is offered to it, slice by
-- slice, and then it is new no more. Rows that another slice holds are on their way. Lanes that hold
-- such jobs are found by skipping from one to the next, however many others there are.
-- $1 limit · $2 now (tests) · $3 incarnation; null: any that is new · returns how many were
-- offered, and nothing when nobody is new
with recursive clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
),
newcomer as materialized (
    select incarnation, project, types from taskforge.workers
    where is_new and lease_until > (select now from clock) and ($3::uuid is null or incarnation = $3)
    order by incarnation limit 1 for no key update skip locked
),
held as (
    select n.project, n.types, x.lane from newcomer n cross join lateral (
        select w.lane from taskforge.waiting w where w.project = n.project and w.skipped is not null order by w.lane, w.due limit 1
    ) x
    union all
    select h.project, h.types, x.lane from held h cross join lateral (
        select w.lane from taskforge.waiting w
        where w.project = h.project and w.skipped is not null and w.lane > h.lane order by w.lane, w.due limit 1
    ) x
),
parked as materialized (
    select w.fence
    from held h
    cross join lateral (select l.job_type from taskforge.lanes l where l.number = h.lane limit 1) l
    cross join lateral (
        select fence from taskforge.waiting
        where project = h.project and lane = h.lane and skipped is not null and due > (select now from clock)
        order by due limit $1 for update skip locked
    ) w
    where h.types is null or l.job_type = any (h.types)
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
