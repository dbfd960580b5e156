-- Live queues of a project by their names, or by their ids. $1 project · $2 names · $3 ids
select c.* from unnest($2::text[]) as n (name)
cross join lateral (
    select * from taskforge.cards where cards.project = $1 and cards.name = n.name and cards.deleted_at is null limit 1
) c
union all
select c.* from unnest($3::uuid[]) as n (id)
cross join lateral (
    select * from taskforge.cards where cards.project = $1 and cards.id = n.id and cards.deleted_at is null limit 1
) c
