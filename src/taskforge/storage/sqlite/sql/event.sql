-- Jobs of one queue that reached one status together. ?1 project · ?2 topic · ?3 queue · ?4 now ·
-- ?5 job ids, one behind the other
insert into outbox (project, topic, queue, at, jobs) values (?, ?, ?, ?, ?)
