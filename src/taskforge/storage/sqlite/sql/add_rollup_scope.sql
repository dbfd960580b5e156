-- A scope that is new. ?1 project · ?2 queue · ?3 job type · ?4 worker
insert into rollup_scopes (project, queue, job_type, worker) values (?1, ?2, ?3, ?4) returning number
