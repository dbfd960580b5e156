-- Point an idempotency key at the job that answers for it. $1 project · $2 key · $3 job
update taskforge.keys set job = $3 where project = $1 and scope = 1 and key = $2
