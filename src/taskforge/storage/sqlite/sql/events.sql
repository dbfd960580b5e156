-- Events in commit order: with one writer at a time their numbers are that order. ?1 behind this
-- number · ?2 limit
select number, project, topic, queue, worker, at, jobs, details from outbox where number > ?1 order by number limit ?2
