-- How every claim begins: the lanes it may take from, and how many its gates let through.
-- $1 incarnation · $2 catalog version the caller remembers · $3 now (tests) · $4 limit · $5 worker
-- id (for skips) · $6 batch · then one entry for each lane: $7 number · $8 tier · $9 seek past this
-- turn · $10 look at this many · $11 timeout · $12 heartbeat timeout · $13 gate ·
-- $14 how many its gate lets through · $15 queue · $16 how many of the queue may run at once, where
-- this statement is to see to that · and $17 how many of the worker's jobs have ended and are being
-- reported · $18 since when it runs what it runs, or null · $19 project · $20 for each lane the
-- fairness key of the jobs that are meant, where it holds some by their key; null: of no lane · $21 for
-- each lane whether a circuit counts what comes of its jobs; null: of no lane
-- No lane, and so nothing, is taken when the caller's lease is over or its memory of the catalog is
-- stale; the caller asks why only then.
with clock as materialized (
    select coalesce($3::timestamptz, statement_timestamp()) as now
),
gate as materialized (
    select g.queue, taskforge.running_behind(g.queue) as running
    from (select distinct l.queue from unnest($13::int[], $16::int[]) as l (queue, running_most) where l.running_most is not null) g
),
lane as materialized (
    select l.number, l.tier, l.bound, l.most, l.timeout, l.beat, l.gate, l.queue, l.key, l.guarded,
        case when l.running_most is null then l.cap
            else coalesce(greatest(0, l.running_most - (select running from gate g where g.queue = l.gate)), 0) end as cap
    from unnest($7::int[], $8::int[], $9::bigint[], $10::int[], $11::float8[], $12::float8[], $13::int[], $14::int[],
        $15::int[], $16::int[], $20::bigint[], $21::bool[]) as l (number, tier, bound, most, timeout, beat, gate, cap, queue, running_most, key,
        guarded)
    where (select catalog_version from taskforge.projects where number = $19) = $2
      and exists (select from taskforge.workers where incarnation = $1 and lease_until > (select now from clock))
),
