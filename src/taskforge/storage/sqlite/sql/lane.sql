-- A lane by its number, and whether upkeep doubts that it is used. ?1 number
select number, project, queue, job_type, priority, requires, doubted_at is not null from lanes where number = ?1
