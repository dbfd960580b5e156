-- A tag of a job. ?1 project · ?2 tag · ?3 job
insert or ignore into job_tags (project, tag, job) values (?1, ?2, ?3)
