-- News of running jobs. $1 fences · $2 seconds since the handler started · $3 progress · $4
-- messages · $5 now (tests) · $6 whether it is the handler that was heard of, and not only its
-- worker that says when it began
-- The first start moves the timeouts: claims wait in a worker's buffer before they run. Whoever is
-- heard of has started, by its claim if nobody said when. Returns the fences that were lost.
-- Nothing here must outlast a power cut, so nobody waits for the disk.
with told as (
    update taskforge.running r set
        heartbeat_at = case when i.alive then c.now else r.heartbeat_at end,
        beat_by = case
            when i.alive then c.now + make_interval(secs => r.beat_seconds)
            when i.ago is not null and r.started_at is null then c.now + make_interval(secs => r.beat_seconds - i.ago)
            else r.beat_by end,
        started_at = coalesce(r.started_at, c.now - make_interval(secs => i.ago), case when i.alive then r.claimed_at end),
        timeout_at = case
            when i.ago is null or r.started_at is not null then r.timeout_at
            else c.now - make_interval(secs => i.ago) + make_interval(secs => r.timeout_seconds) end,
        progress = coalesce(i.progress, r.progress),
        message = coalesce(i.message, r.message)
    from unnest($1::uuid[], $2::float8[], $3::float8[], $4::text[], $6::bool[]) as i (fence, ago, progress, message, alive)
    cross join (select coalesce($5::timestamptz, statement_timestamp()) as now, set_config('synchronous_commit', 'off', true)) c
    where r.fence = i.fence
    returning r.fence
)
select lost.fence from unnest($1::uuid[]) as lost (fence) where lost.fence not in (select fence from told)
