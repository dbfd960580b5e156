-- Which of these idempotency keys stand for a job. ?1 project · ?2 now · ?3 keys, a list
select k.key from json_each(?3) i cross join keys k on k.project = ?1 and k.scope = 1 and k.key = i.value
where k.until is null or k.until > ?2
