-- A lane by what it stands for, and whether upkeep doubts that it is used. ?1 queue · ?2 job type · ?3
-- priority · ?4 requires
select number, project, queue, job_type, priority, requires, doubted_at is not null from lanes where queue = ?1 and job_type = ?2 and priority = ?3 and requires = ?4
