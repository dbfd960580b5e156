-- The number of a scope. ?1 project · ?2 queue · ?3 job type · ?4 worker
select number from rollup_scopes where project = ?1 and queue = ?2 and job_type = ?3 and worker = ?4
