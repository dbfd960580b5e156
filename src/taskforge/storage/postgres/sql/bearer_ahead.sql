-- Who keeps a name from being registered ahead of its process: workers that are there and bear it,
-- or were started under it, and those that are shown by it though they were started under another
-- one: by an index for each, as `or` would read all workers of the project.
-- $1 project · $2 name · $3 now (tests)
select w.id, w.name, w.given_name from (
    select id, project, name, given_name, incarnation, lease_until from taskforge.workers where project = $1 and name = $2
    union all
    select id, project, name, given_name, incarnation, lease_until from taskforge.workers where project = $1 and given_name = $2 and name <> $2
) w
where w.lease_until > coalesce($3::timestamptz, statement_timestamp()) or (w.given_name <> $2 and w.incarnation = (
    select n.incarnation from taskforge.workers n
    where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
