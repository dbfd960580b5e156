-- How many finished jobs of each status each queue keeps.
select queue, status, sum(count) from (
    select queue, status, count from tallies
    union all
    select queue, status, count from tally_deltas
)
group by queue, status
