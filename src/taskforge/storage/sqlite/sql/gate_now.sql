-- What a queue's rate limit remembers. ?1 queue
select tokens, refreshed_at, rate, judged_at, behind from gates where queue = ?1
