-- An event of a queue or a worker. ?1 project · ?2 topic · ?3 queue · ?4 worker · ?5 now
insert into outbox (project, topic, queue, worker, at, jobs) values (?, ?, ?, ?, ?, x'')
