-- Place a job: waiting if its time lies ahead, else ready.
-- $1 fence · $2 job · $3 project · $4 lane · $5 attempt · $6 max attempts · $7 crashes · $8 keyed ·
-- $9 due (instant) · $10 due (seconds from now) · $11 turn to keep · $12 until · $13 now (tests) ·
-- $14 whether it goes on waiting in any case · returns whether it waits
with clock as materialized (
    select now, coalesce($9::timestamptz, now + make_interval(secs => $10)) as due
    from (select coalesce($13::timestamptz, statement_timestamp()) as now) c
), later as (
    insert into taskforge.waiting (fence, job, project, lane, attempt, max_attempts, crashes, keyed, due, until)
    select $1, $2, $3, $4, $5, $6, $7, $8, due, $12::timestamptz from clock where $14 or due > now
), placed as (
    insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn, until)
    select $1, $2, $3, $4, $5, $6, $7, $8, coalesce($11::bigint, (date_part('epoch', now) * 1e6::float8)::bigint), $12::timestamptz
    from clock where not $14 and (due is null or due <= now)
)
select $14 or coalesce(due > now, false) from clock
