-- ?1 incarnation · ?2 worker · ?3 project · ?4 name · ?5 when its lease ended
insert into former_workers (incarnation, id, project, name, ended_at) values (?, ?, ?, ?, ?)
