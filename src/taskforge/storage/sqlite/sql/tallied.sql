-- How many finished jobs of each status each queue keeps. ?1 projects
select queue, status, sum(count) from (
    select queue, status, count from tallies where project in (select value from json_each(?1))
    union all
    select queue, status, count from tally_deltas where project in (select value from json_each(?1))
)
group by queue, status
