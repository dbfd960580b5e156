-- ?1 project · ?2 queue · ?3 job type · ?4 priority · ?5 requires
insert into lanes (project, queue, job_type, priority, requires, kept_at) values (?1, ?2, ?3, ?4, ?5, unixepoch() * 1000000) returning number
