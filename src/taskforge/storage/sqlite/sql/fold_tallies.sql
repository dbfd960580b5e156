-- ?1 the last delta to fold
insert into tallies (queue, status, project, count)
select queue, status, project, sum(count) from tally_deltas where number <= ?1 group by queue, status, project
on conflict do update set count = count + excluded.count
