-- What came of the executions of these queues since this was asked last. Whoever asks holds their
-- gates. $1 queues
with gone as (
    delete from taskforge.gate_deltas where queue = any ($1::int[]) returning queue, good, bad
)
select queue, sum(good)::int as good, sum(bad)::int as bad from gone group by queue
