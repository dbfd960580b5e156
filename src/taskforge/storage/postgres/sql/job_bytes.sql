-- How much of what a list is asked for each job has. Not on SQLite, whose rows are read one by one.
-- $1 ids · $2 projects · $3 whether with payloads · $4 whether with results
select id,
    case when $3::bool then coalesce(octet_length(payload::text), 0) else 0 end
        + case when $4::bool then coalesce(octet_length(result::text), 0) else 0 end as bytes
from taskforge.jobs_now where id = any ($1::uuid[]) and project = any ($2::int[])
