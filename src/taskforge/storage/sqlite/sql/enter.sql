-- An entry of the audit log. ?1 now · ?2 organization · ?3 project · ?4 actor · ?5 action · ?6
-- target · ?7 before · ?8 after · ?9 origin · ?10 request
insert into audit (at, organization, project, actor, action, target, before, after, origin, request) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
