-- The worker of a project that was not heard of for longest, of those that did not leave in order and
-- have no later life. $1 project · $2 none that was last heard of before this time
select w.name, w.heartbeat_at from taskforge.workers w
where w.project = $1 and w.heartbeat_at > $2 and (w.left_at is null or w.died_at is not null)
    and not exists (
        select 1 from taskforge.workers n
        where n.id = w.id and n.project = w.project and n.registered_at > w.registered_at
    )
order by w.heartbeat_at limit 1
