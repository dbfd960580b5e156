-- Incarnations nobody asks for any more. The newest life of a worker that is assigned to a queue
-- stays: by its name the worker becomes the same again. `add_former_worker` keeps whose lives they
-- were. ?1 leases that ended before this · ?2 limit
delete from workers where incarnation in (
    select w.incarnation from workers w
    where w.lease_until < ?1 and w.incarnation not in (select worker from running)
      and w.incarnation not in (select worker from rollup_deltas where worker is not null)
      and (w.id not in (select a.worker from assignments a join queues q on q.number = a.queue where q.deleted_at is null)
            or exists (select 1 from workers n where n.id = w.id and n.project = w.project
                and (n.registered_at, n.incarnation) > (w.registered_at, w.incarnation)))
    limit ?2
)
returning incarnation, id, project, name, lease_until
