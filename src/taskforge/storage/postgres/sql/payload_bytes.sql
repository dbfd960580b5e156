-- How large a payload is as it was written. $1 job
select coalesce(octet_length(payload::text), 0) from taskforge.jobs where id = $1
