-- How many finished jobs of each status some queues keep. ?1 their numbers
select queue, status, sum(count) from (
    select queue, status, count from tallies where queue in (select value from json_each(?1))
    union all
    select queue, status, count from tally_deltas where queue in (select value from json_each(?1))
)
group by queue, status
