-- ?1 job · ?2 number · ?3 epoch · ?4 project · ?5 level · ?6 logged at · ?7 message · ?8 metadata
insert into logs (job, number, epoch, project, level, logged_at, message, metadata) values (?, ?, ?, ?, ?, ?, ?, ?)
