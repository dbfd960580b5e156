-- Who holds these idempotency keys just now. $1 project · $2 keys · $3 now (tests)
select key, job, body from taskforge.keys
where project = $1 and scope = 1 and key = any ($2::text[]) and (until is null or until > coalesce($3::timestamptz, clock_timestamp()))
