-- What has no partition to go with: keys whose time is over, events and worker incarnations nobody
-- asks for any more.
-- $1 limit · $2 now (tests) · $3 for how long after the end of a worker's life history may name it
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
), keys as (
    delete from taskforge.keys where ctid = any (array(
        select ctid from taskforge.keys where until <= (select now from clock) limit $1 for update skip locked))
), events as (
    -- The limit comes before the test of age: the walk ends there whether it finds old ones or not.
    delete from taskforge.outbox where ctid = any (array(
        select ctid from (select ctid, at from taskforge.outbox order by xact, number limit $1) o
        where o.at < (select now from clock) - interval '1 day'))
    returning xact, number
), horizon as (
    update taskforge.horizons c set pruned_xact = e.xact, pruned_event = e.number
    from (select xact, number from events order by xact desc, number desc limit 1) e
    where (e.xact, e.number) > (c.pruned_xact, c.pruned_event)
), lives as (
    -- The newest life of a worker that is assigned to a queue stays: by its name the worker becomes
    -- the same again.
    delete from taskforge.workers w using clock c
    where w.lease_until < c.now - interval '7 days' and not exists (select from taskforge.running r where r.worker = w.incarnation)
      and not exists (select from taskforge.rollup_deltas d where d.worker = w.incarnation)
      and (not exists (select from taskforge.assignments a join taskforge.queues q on q.number = a.queue
                where a.worker = w.id and q.deleted_at is null)
            or exists (select from taskforge.workers n where n.id = w.id and n.project = w.project
                and (n.registered_at, n.incarnation) > (w.registered_at, w.incarnation)))
    returning w.incarnation, w.id, w.project, w.name, w.lease_until
), former as (
    insert into taskforge.former_workers (incarnation, id, project, name, ended_at)
    select incarnation, id, project, name, lease_until from lives
)
delete from taskforge.former_workers where ctid = any (array(
    select ctid from taskforge.former_workers where ended_at < (select now from clock) - $3::interval limit $1))
