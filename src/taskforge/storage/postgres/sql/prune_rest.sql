-- What has no partition to go with: keys whose time is over, events and worker incarnations nobody asks for any more.
-- $1 limit · $2 now (tests)
with clock as materialized (
    select coalesce($2::timestamptz, statement_timestamp()) as now
), keys as (
    delete from taskforge.keys where ctid = any (array(
        select ctid from taskforge.keys where until <= (select now from clock) limit $1 for update skip locked))
), events as (
    delete from taskforge.outbox where number = any (array(
        select number from taskforge.outbox where at < (select now from clock) - interval '1 day' order by number limit $1))
)
delete from taskforge.workers w using clock c
where w.lease_until < c.now - interval '7 days' and not exists (select from taskforge.running r where r.worker = w.incarnation)
