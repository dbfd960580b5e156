-- How large payloads are as they were written. $1 jobs
select id, coalesce(octet_length(payload::text), 0) as bytes from taskforge.jobs where id = any ($1::uuid[])
