-- $1 limit
with gone as (
    delete from taskforge.tally_deltas where number = any (array(
        select number from taskforge.tally_deltas order by number limit $1 for update skip locked))
    returning *
), summed as (
    insert into taskforge.tallies as t (queue, status, project, count)
    select queue, status, min(project), sum(count) from gone group by 1, 2 order by 1, 2
    on conflict (queue, status) do update set count = t.count + excluded.count
)
select count(*) from gone
