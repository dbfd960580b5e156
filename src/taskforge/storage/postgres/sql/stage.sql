-- Stage: jobs whose time has come move from waiting to ready, in order of their time. $1 limit · $2
-- now (tests) · $3 so many seconds after their arguments first fitted no handler jobs have waited
-- long enough: whoever takes them next may fail them · returns the lanes (and keys) that they came to, each
-- with the turn of the first and how many they are
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
),
due as (
    delete from taskforge.waiting where ctid = any (array(
        select ctid from taskforge.waiting where due <= (select now from clock) order by due limit $1 for update skip locked))
    returning *
),
placed as (
    insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn, until, misfit_at, key, skipped)
    select fence, job, project, lane, attempt, max_attempts, crashes, keyed,
        coalesce(turn, (date_part('epoch', (select now from clock)) * 1e6::float8)::bigint + row_number() over (order by due, fence)), until, misfit_at, key,
        case when misfit_at > (select now from clock) - make_interval(secs => $3) then skipped end
    from due
    returning project, lane, key, turn
)
select project, lane, key, min(turn) as turn, count(*) as count from placed group by project, lane, key
