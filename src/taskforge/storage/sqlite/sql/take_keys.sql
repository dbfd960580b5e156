-- Take a key that is free, or whose time is over. ?1 project · ?2 scope · ?3 key · ?4 job · ?5 body
-- hash · ?6 until
insert or replace into keys (project, scope, key, job, body, until) values (?, ?, ?, ?, ?, ?)
