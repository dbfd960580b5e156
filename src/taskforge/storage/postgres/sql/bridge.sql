-- Nobody looked at the store for longer than was promised: it was away, could not be written, or
-- its clock was stepped. That silence is nobody's death. Whoever ran jobs and was alive when
-- somebody last looked gets the silence back, or a whole lease from now when it was longer than
-- half of one (a renewal may have been due just then); timeouts and heartbeats of what runs are
-- moved by it; deadlines, which are times of the world, are not. A clock that was set back: leases
-- end a lease from now, and those that were over stay so; what was registered or claimed in what is
-- the future since then was so before the silence. Time that began to run a moment ago, with a
-- claim, a start or a heartbeat, did so after the clock was set back and is not moved. (Or it began
-- as long before as the clock was set back by, and gets too much; workers keep time themselves.)
-- The row of looks is locked before (lock_look.sql). A renewal counts as a look: it is a write too,
-- and renew.sql bridges before it.
-- $1 incarnation that asks, which may run nothing, or null · $2 now (tests) · returns how many
-- leases go on so
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
),
last as materialized (
    select c.now, l.rhythm, case when l.at > c.now then l.at else greatest(l.at, (
            select max(w.lease_until - make_interval(secs => w.lease_seconds)) from taskforge.workers w
            where w.heartbeat_at is not null and w.lease_until - make_interval(secs => w.lease_seconds) <= c.now)) end as seen
    from taskforge.looks l cross join clock c
),
gap as materialized (
    select now, seen, now < seen as is_set_back, now - make_interval(secs => 10 * rhythm) as lately
    from last where abs(date_part('epoch', now - seen)) > rhythm
),
leases as (
    update taskforge.workers w set
        lease_until = case
            when w.lease_until <= g.seen then least(w.lease_until, g.now)
            when g.now < g.seen
                or g.now - greatest(g.seen, case when w.registered_at <= g.now then w.registered_at end) > make_interval(secs => w.lease_seconds / 2)
                then g.now + make_interval(secs => w.lease_seconds)
            else w.lease_until + (g.now - greatest(g.seen, case when w.registered_at <= g.now then w.registered_at end))
        end,
        heartbeat_at = least(w.heartbeat_at, g.now)
    from gap g
    where w.left_at is null and w.lease_until > least(g.seen, g.now)
      and (g.now < g.seen or w.incarnation = $1 or w.incarnation in (select worker from taskforge.running))
    returning w.lease_until > g.now as alive
),
claims as (
    update taskforge.running r set
        timeout_at = case when g.is_set_back and r.timeout_at - make_interval(secs => r.timeout_seconds) between g.lately and g.now then r.timeout_at
            else r.timeout_at + (g.now - greatest(g.seen, case when r.claimed_at <= g.now then r.claimed_at end)) end,
        beat_by = case when g.is_set_back and r.beat_by - make_interval(secs => r.beat_seconds) between g.lately and g.now then r.beat_by
            else r.beat_by + (g.now - greatest(g.seen, case when r.claimed_at <= g.now then r.claimed_at end)) end
    from gap g
),
looked as (
    update taskforge.looks l set at = coalesce((select now from gap), s.seen) from last s
)
select count(*) from leases where alive
