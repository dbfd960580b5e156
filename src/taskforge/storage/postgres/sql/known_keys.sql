-- Which of these idempotency keys stand for a job. $1 project · $2 now · $3 keys
select key from taskforge.keys
where project = $1 and scope = 1 and (until is null or until > $2) and key = any ($3::text[])
