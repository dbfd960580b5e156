-- Place jobs: waiting if their time lies ahead, else ready.
-- $1 fences · $2 jobs · $3 projects · $4 lanes · $5 attempts · $6 max attempts · $7 crashes · $8 keyed ·
-- $9 due (instants) · $10 due (seconds from now) · $11 turns to keep · $12 until · $13 whether they go on
-- waiting in any case · $14 keys, where keys take turns · $15 now (tests) · returns fences, and whether they wait
with job as materialized (
    select g.*, c.now, coalesce(g.at, c.now + make_interval(secs => g.seconds)) as due,
        g.stays or coalesce(coalesce(g.at, c.now + make_interval(secs => g.seconds)) > c.now, false) as waits
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::int[], $6::int[], $7::int[], $8::bool[], $9::timestamptz[], $10::float8[],
        $11::bigint[], $12::timestamptz[], $13::bool[], $14::bigint[]) with ordinality
        as g (fence, job, project, lane, attempt, max_attempts, crashes, keyed, at, seconds, turn, until, stays, key, place)
    cross join (select coalesce($15::timestamptz, statement_timestamp()) as now) c
), later as (
    insert into taskforge.waiting (fence, job, project, lane, attempt, max_attempts, crashes, keyed, due, until, key)
    select fence, job, project, lane, attempt, max_attempts, crashes, keyed, due, until, key from job where waits
), placed as (
    insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn, until, key)
    select fence, job, project, lane, attempt, max_attempts, crashes, keyed,
        coalesce(turn, (date_part('epoch', now) * 1e6::float8)::bigint + place - 1), until, key
    from job where not waits
)
select fence, waits from job
