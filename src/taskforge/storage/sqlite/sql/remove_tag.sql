-- ?1 project · ?2 tag · ?3 job
delete from job_tags where project = ? and tag = ? and job = ?
