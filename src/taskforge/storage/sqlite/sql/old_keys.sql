-- Idempotency keys whose time is over. ?1 now · ?2 limit
select project, scope, key from keys where until <= ?1 order by until limit ?2
