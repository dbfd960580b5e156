-- How many jobs of these limited queues are running. A statement of its own: its snapshot must be
-- younger than the gates' lock.
-- $1 queues
select gate, count(*) as running from taskforge.running where gate = any ($1::int[]) group by gate
