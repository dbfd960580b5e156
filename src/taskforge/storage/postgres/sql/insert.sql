-- Insert jobs with everything a job can have. An id that is already stored is left alone and not
-- returned.
-- $1 ids · $2 first fences · $3 lanes · $4 max attempts · $5 payloads · $6 now (tests) · $7/$8 at
-- (instant/seconds) ·
-- $9/$10 deadline · $11/$12 expiry · $13 tags (array literals) · $14 extras · then the fields that
-- `KEPT_AS_IS` in domain/job.py lists, in its order: $15 timeouts · $16 unique keys · $17 idempotency
-- keys · $18 fairness keys · and $19 what stands for these in a queue whose keys take turns
with clock as materialized (
    select coalesce($6::timestamptz, clock_timestamp()) as now
),
given as materialized (
    select x.job, x.fence, x.lane, x.max_attempts, x.payload, x.tags::text[] as tags, x.extras::json as extras, x.timeout, x.unique_key,
        x.idempotency_key, x.fairness_key, x.key, x.position, l.project, l.queue, l.job_type, l.priority, nullif(l.requires, '') as requires, c.now,
        coalesce(x.at, c.now + make_interval(secs => x.at_in)) as due,
        coalesce(x.deadline, c.now + make_interval(secs => x.deadline_in)) as deadline,
        coalesce(x.expires, c.now + make_interval(secs => x.expires_in)) as expires
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[], $7::timestamptz[], $8::float8[], $9::timestamptz[],
        $10::float8[], $11::timestamptz[], $12::float8[], $13::text[], $14::text[], $15::float8[], $16::text[], $17::text[], $18::text[], $19::bigint[])
        with ordinality as x (job, fence, lane, max_attempts, payload, at, at_in, deadline, deadline_in, expires, expires_in, tags,
            extras, timeout, unique_key, idempotency_key, fairness_key, key, position)
    join taskforge.lanes l on l.number = x.lane
    cross join clock c
),
facts as (
    insert into taskforge.jobs (id, project, queue, job_type, priority, max_attempts, payload, deadline, expires_at, tags, extras,
        requires, timeout_seconds, unique_key, idempotency_key, fairness_key)
    select job, project, queue, job_type, priority, max_attempts, payload::json, deadline, expires, tags, extras, requires, timeout,
        unique_key, idempotency_key, fairness_key
    from given
    on conflict (id) do nothing
    returning id
),
fresh as materialized (
    select * from given where job in (select id from facts)
),
tagged as (
    insert into taskforge.job_tags (project, tag, job)
    select project, unnest(tags), job from fresh where tags is not null
),
placed as (
    insert into taskforge.ready (fence, job, project, lane, attempt, max_attempts, crashes, keyed, turn, until, key)
    select fence, job, project, lane, 0, max_attempts, 0, unique_key is not null, (date_part('epoch', now) * 1e6::float8)::bigint + position,
        least(deadline, expires), key
    from fresh where due is null or due <= now
),
delayed as (
    insert into taskforge.waiting (fence, job, project, lane, attempt, max_attempts, crashes, keyed, due, until, key)
    select fence, job, project, lane, 0, max_attempts, 0, unique_key is not null, due, least(deadline, expires), key
    from fresh where due > now
)
select job from fresh
