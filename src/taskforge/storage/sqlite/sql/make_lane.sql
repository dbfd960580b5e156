-- A lane, unless it is already there. ?1 project · ?2 queue · ?3 job type · ?4 priority · ?5 requires
insert or ignore into lanes (project, queue, job_type, priority, requires) values (?, ?, ?, ?, ?)
